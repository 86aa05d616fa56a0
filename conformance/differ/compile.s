// Empty: functions without a body, which are linked by name, need an assembly file in their package.
