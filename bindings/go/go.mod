module quoit

go 1.19
