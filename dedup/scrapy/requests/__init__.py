"""The filter of requests that were made before."""
