import { defineConfig } from "vite";
import { compressed } from "./compressed.ts";
import icons from "./icons.json" with { type: "json" };
import { iconSprite } from "./sprite.ts";

// Every name carries the hash of its content, so that browsers may keep a file for ever; templates find names in the manifest.
export default defineConfig({
  base: "./",
  plugins: [iconSprite(icons), compressed()],
  build: {
    outDir: "../static/web/dist",
    emptyOutDir: true,
    manifest: "manifest.json",
    target: "es2023",
    assetsInlineLimit: 0,
    cssCodeSplit: true,
    modulePreload: { polyfill: false },
    rollupOptions: {
      input: { app: "src/app.ts", theme: "src/theme.ts" },
      output: {
        entryFileNames: "[name]-[hash].js",
        chunkFileNames: "[name]-[hash].js",
        assetFileNames: "[name]-[hash][extname]",
      },
    },
  },
});
