"""Property tests are about what is right, not how fast: a busy machine must not fail them."""

from hypothesis import settings

settings.register_profile("steady", deadline=None)
settings.load_profile("steady")
