module programs

go 1.19

require librl v0.0.0

replace librl => ../../bindings/go
