import { writeFile } from 'node:fs/promises';
import { pushCorpus } from '../test/corpus/corpus.ts';
import { startDaemon, waitForLine } from '../test/world/daemon.ts';
import { startRegistry } from '../test/world/registry.ts';
import { startMeasuredSluice } from '../test/world/sluice.ts';
import { makeTempDir } from '../test/world/temp-dir.ts';
import { requestsPerSecond } from './load.ts';
import type { Part } from './report.ts';
import { interleave, median, ratio } from './stats.ts';

const rounds = 7;

/** (a) Manifests per second for a used token, compared with docker-registry and a bare Koa application. */
export async function manifests(): Promise<Part[]> {
  await using directory = await makeTempDir('bench');
  await using registry = await startRegistry();
  await pushCorpus(registry, ['cfg:full']);
  await using sluice = await startMeasuredSluice({
    config: {
      registries: { [registry.host]: { plainHttp: true } },
      limits: { pulls: { anonymous: 'off' } },
    },
  });
  const { targetImage, digest } = await sluice.request({
    containerImage: `${registry.host}/corpus/cfg:full`,
    containerConfig: { env: ['A=1'] },
  });
  const served = sluice.at(targetImage, 'manifests/full');
  const response = await fetch(served);
  const mediaType = response.headers.get('content-type') ?? '';
  const file = directory.join('manifest.json');
  await writeFile(file, Buffer.from(await response.arrayBuffer()));
  const script = new URL('peers/bare-koa.ts', import.meta.url).pathname;
  await using koa = startDaemon(process.execPath, [script, file, mediaType, digest]);
  const [, koaUrl = ''] = await waitForLine(koa, /listening on (\S+)/);

  const plain = `${registry.url}/v2/corpus/cfg/manifests/full`;
  const { ours, theirs, bare } = await interleave(
    {
      ours: () => requestsPerSecond(served),
      theirs: () => requestsPerSecond(plain, { headers: [`Accept: ${mediaType}`] }),
      bare: () => requestsPerSecond(koaUrl),
    },
    rounds,
  );
  const perSecond = (figures: readonly number[]) => `${Math.round(median(figures))}/s`;
  return [
    {
      letter: 'a',
      title: 'Manifests of an augmented token, warm',
      rows: [
        {
          what: 'Sluice : docker-registry with the plain manifest',
          figure: ratio(ours, theirs).toFixed(1),
          aim: '8',
          medians: `${perSecond(ours)} : ${perSecond(theirs)}`,
        },
        {
          what: 'Sluice : a bare Koa application with the same bytes',
          figure: ratio(ours, bare).toFixed(2),
          aim: '0.5',
          medians: `${perSecond(ours)} : ${perSecond(bare)}`,
        },
      ],
    },
  ];
}
