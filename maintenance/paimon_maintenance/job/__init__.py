"""What a job is: its arguments, its plan, its guards, its report and its exit code."""
