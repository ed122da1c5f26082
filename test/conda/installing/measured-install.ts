/** Installs an archive to nowhere, and prints by how many bytes the memory of this process grew at most. */
import { readFileSync } from 'node:fs';
import { installPackage } from '../../../src/conda/installing/install-package.ts';

const [, , path = '', scratch = ''] = process.argv;
const it = {
  name: 'made',
  version: '1',
  build: '0',
  buildNumber: 0,
  subdir: 'noarch',
  depends: [],
};
const before = process.memoryUsage.rss();
await installPackage(
  path,
  { ...it, fileName: 'made-1-0.conda', url: 'https://conda.example.org/c/noarch/made-1-0.conda' },
  { prefix: '/opt/conda' },
  { write: () => {} },
  { signal: new AbortController().signal, scratch },
);
// Unlike `maxRSS`, this does not begin with the memory of the parent.
const [, peak] = /VmHWM:\s+(\d+) kB/.exec(readFileSync('/proc/self/status', 'utf8')) ?? [];
console.log(Number(peak) * 1024 - before);
