// The size of a node in pixels: the same as in flows/engine/layout.py, so that the server's places fit.

export const NODE_WIDTH = 208;
export const NODE_HEIGHT = 58;

// The smallest zoom that a graph gets by itself: at it the smallest text on a node is 8 px high.
export const READABLE_ZOOM = 0.7;
