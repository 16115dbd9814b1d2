"""The async client and the command line of Agent Sandbox."""
