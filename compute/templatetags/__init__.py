"""What templates say of compute."""
