// The size of a node in pixels: the same as in flows/engine/layout.py, so that the server's places fit.

export const NODE_WIDTH = 208;
export const NODE_HEIGHT = 58;
