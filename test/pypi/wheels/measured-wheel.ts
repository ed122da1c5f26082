/** Installs a wheel to nowhere, and prints by how many bytes the memory of this process grew at most. */
import { readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { archiveLimits } from '../../../src/conda/archives/archive-checks.ts';
import { installWheel } from '../../../src/pypi/wheels/install-wheel.ts';

const [, , path = '', entries = ''] = process.argv;
const fileName = basename(path);
const before = process.memoryUsage.rss();
await installWheel(
  path,
  {
    ...{ name: 'made', version: '1.0', fileName, sha256: '0'.repeat(64) },
    url: `https://pypi.example.org/${fileName}`,
  },
  {
    prefix: '/opt/conda',
    python: { minorVersion: '3.12', sitePackages: 'lib/python3.12/site-packages' },
  },
  { write: () => {} },
  {
    signal: new AbortController().signal,
    limits: { ...archiveLimits, entries: Number(entries) },
  },
);
// Unlike `maxRSS`, this does not begin with the memory of the parent.
const [, peak] = /VmHWM:\s+(\d+) kB/.exec(readFileSync('/proc/self/status', 'utf8')) ?? [];
console.log(Number(peak) * 1024 - before);
