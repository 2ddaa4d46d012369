"""Which operators a runtime supports, and what they cost."""
