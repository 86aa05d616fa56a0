//go:build !linux

package smtlib

func boundMemory(int) {}
