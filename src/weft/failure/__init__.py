"""Why a job failed, and what follows from it."""
