import { writeFile } from 'node:fs/promises';
import { gzipSync } from 'node:zlib';
import { pushCorpus } from '../test/corpus/corpus.ts';
import { tarOf } from '../test/sif/tar-file.ts';
import { startRegistry } from '../test/world/registry.ts';
import { type Sluice, startMeasuredSluice } from '../test/world/sluice.ts';
import { makeTempDir } from '../test/world/temp-dir.ts';
import { requestsPerSecond } from './load.ts';
import type { Part, Row } from './report.ts';
import { interleave, median, ratio } from './stats.ts';

const rounds = 7;
/** Requests one after another, in a round. */
const inRound = 50;

/** (c) Container requests per second, each checked with the registry and on disk before the response. */
export async function containerRequests(): Promise<Part[]> {
  await using directory = await makeTempDir('bench');
  await using registry = await startRegistry();
  await pushCorpus(registry, ['cfg:full', 'busybox:oci', 'multi:index']);
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
  const included = await includedImages(sluice, registry.host);
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
        included,
      ],
    },
  ];
}

/** Returns what two included images cost a request, when their layers are here. */
async function includedImages(sluice: Sluice, host: string): Promise<Row> {
  const containerImage = `${host}/corpus/cfg:full`;
  const layers = ['one', 'two'].map(name => {
    const file = gzipSync(tarOf([{ name, content: name }]));
    return { location: `data:${file.toString('base64')}` };
  });
  const names = ['busybox:oci', 'multi:index'];
  const containerIncludes = names.map(name => `${host}/corpus/${name}`);
  const timeOf = (body: object) => async () => {
    const times: number[] = [];
    for (let at = 0; at < inRound; at += 1) {
      const began = performance.now();
      await sluice.request({ containerImage, ...body });
      times.push(performance.now() - began);
    }
    return median(times);
  };
  const { includes, added } = await interleave(
    {
      includes: timeOf({ containerIncludes }),
      added: timeOf({ containerConfig: { layers } }),
    },
    rounds,
  );
  return {
    what: 'A request with two included images takes longer than one with two layers by',
    figure: `${(median(includes) - median(added)).toFixed(1)} ms`,
    aim: '5 ms',
    medians: `${median(includes).toFixed(1)} ms : ${median(added).toFixed(1)} ms`,
  };
}
