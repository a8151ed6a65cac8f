"""The conformance suite of policy parts: what each part of a policy promises, whoever wrote it."""
