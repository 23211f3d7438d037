"""One sub-agent as a process: `python -m easyagent.batch JOB`."""
