import { writeFile } from 'node:fs/promises';
import { pushCorpus } from '../test/corpus/corpus.ts';
import { startRegistry } from '../test/world/registry.ts';
import { startMeasuredSluice } from '../test/world/sluice.ts';
import { makeTempDir } from '../test/world/temp-dir.ts';
import { requestsPerSecond } from './load.ts';
import type { Part } from './report.ts';
import { interleave, median, ratio } from './stats.ts';

const rounds = 7;

/** (c) Container requests per second, each checked with the registry and on disk before the response. */
export async function containerRequests(): Promise<Part[]> {
  await using directory = await makeTempDir('bench');
  await using registry = await startRegistry();
  await pushCorpus(registry, ['cfg:full']);
  await using sluice = await startMeasuredSluice({
    config: { registries: { [registry.host]: { plainHttp: true } } },
  });
  const body = {
    containerImage: `${registry.host}/corpus/cfg:full`,
    containerConfig: { env: ['A=1'] },
  };
  const script = directory.join('post.lua');
  await writeFile(
    script,
    `wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
wrk.body = [[${JSON.stringify(body)}]]
`,
  );
  const plain = `${registry.url}/v2/corpus/cfg/manifests/full`;
  const accept = 'Accept: application/vnd.oci.image.manifest.v1+json';
  const { ours, theirs } = await interleave(
    {
      ours: () => requestsPerSecond(`${sluice.url}/v1alpha2/container`, { script }),
      theirs: () => requestsPerSecond(plain, { headers: [accept] }),
    },
    rounds,
  );
  return [
    {
      letter: 'c',
      title: 'Container requests',
      rows: [
        {
          what: 'Container requests of Sluice : manifests of docker-registry',
          figure: ratio(ours, theirs).toFixed(1),
          aim: '5000/s',
          medians: `${Math.round(median(ours))}/s : ${Math.round(median(theirs))}/s`,
        },
      ],
    },
  ];
}
