/** Compares Sluice with its peers: `npm run bench`, or `npm run bench -- a c` for some parts. */
import { blobs } from './blobs.ts';
import { builds } from './builds.ts';
import { condaBuilder } from './conda-builder.ts';
import { condaLayers } from './conda-layers.ts';
import { condaSharing } from './conda-sharing.ts';
import { containerRequests } from './container-requests.ts';
import { domains } from './domains.ts';
import { hosted } from './hosted.ts';
import { lazyPulls } from './lazy-pulls.ts';
import { manifests } from './manifests.ts';
import { manyRows } from './many-rows.ts';
import { mirrors } from './mirrors.ts';
import { pages } from './pages.ts';
import { pythonLayers } from './python-layers.ts';
import { replicaClients } from './replica-clients.ts';
import { report } from './report.ts';
import { sif } from './sif.ts';
import { start } from './start.ts';

const parts = {
  a: manifests,
  b: blobs,
  c: containerRequests,
  e: start,
  f: hosted,
  g: builds,
  h: sif,
  i: condaLayers,
  j: condaSharing,
  k: pages,
  l: condaBuilder,
  m: replicaClients,
  n: manyRows,
  o: domains,
  p: mirrors,
  q: pythonLayers,
  r: lazyPulls,
};

const wanted = process.argv.slice(2);
for (const [letter, measure] of Object.entries(parts)) {
  if (wanted.length > 0 && !wanted.includes(letter)) continue;
  for (const part of await measure()) report(part);
}
