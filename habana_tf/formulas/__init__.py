"""What ops mean, in primitives, for both front ends; knows neither framework."""
