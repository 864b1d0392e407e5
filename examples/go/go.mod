module quoitexamples

go 1.19

require quoit v0.0.0

replace quoit => ../../bindings/go
