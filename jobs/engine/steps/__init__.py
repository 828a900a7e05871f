"""A leader's steps beside dispatch, each with its own failures, and the threads that run them."""
