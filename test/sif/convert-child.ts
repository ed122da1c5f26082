/**
 * Converts layers in files in a separate process, to measure its memory: `node convert-child.ts <directory>
 * <layer>...`. Prints the maximum memory in bytes, and the result.
 */

import { convertToSif } from '../../src/images/sif/convert.ts';
import { wholeFile } from '../../src/storage/content/file-source.ts';
import { optionsFor, sourceOf } from './conversion.ts';
import { fileLayer } from './distribution-layer.ts';

const [directory = '', ...paths] = process.argv.slice(2);
const layers = await Promise.all(paths.map(path => fileLayer(path, 'sha256:')));
const begin = performance.now();
const source = {
  ...sourceOf(layers),
  async openLayer({ digest, size }: { digest: string; size: number }) {
    const path = layers.find(({ content }) => content.digest === digest)?.path ?? '';
    return wholeFile(path, size);
  },
};
const lines: string[] = [];
const sif = await convertToSif(source, optionsFor(directory, lines));
const seconds = (performance.now() - begin) / 1000;
const memory = process.resourceUsage().maxRSS * 1024;
console.log(JSON.stringify({ memory, seconds, lines, ...sif }));
