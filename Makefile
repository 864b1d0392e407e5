# Forwards every name to ./dev: `make test` is `./dev test`, plain `make` is `./dev help`.
.DEFAULT_GOAL := help
.PHONY: FORCE
%: FORCE
	@./dev $@
Makefile: ;
FORCE:
