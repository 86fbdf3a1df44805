import { defineConfig } from "vite";
import icons from "./icons.json" with { type: "json" };
import { iconSprite } from "./sprite.ts";

// Names without hashes for what templates load; chunks, which only our own script loads, carry one.
export default defineConfig({
  base: "./",
  plugins: [iconSprite(icons)],
  build: {
    outDir: "../static/web/dist",
    emptyOutDir: true,
    target: "es2023",
    assetsInlineLimit: 0,
    cssCodeSplit: true,
    modulePreload: { polyfill: false },
    rollupOptions: {
      input: { app: "src/app.ts", theme: "src/theme.ts" },
      output: {
        entryFileNames: "[name].js",
        chunkFileNames: "[name]-[hash].js",
        assetFileNames: ({ names }) => (names[0] === "app.css" ? "app.css" : "[name]-[hash][extname]"),
      },
    },
  },
});
