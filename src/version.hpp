// The library's version: default_version of sql/steady.control, once it is released.
#pragma once

#define STEADY_VERSION "1.0"
