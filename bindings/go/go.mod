module quoit

go 1.19

require golang.org/x/net v0.17.0
