import { randomUUID } from 'node:crypto';
import { stat } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { imageOf } from '../test/corpus/image.ts';
import { Pusher } from '../test/corpus/push.ts';
import { distributionLayer } from '../test/sif/distribution-layer.ts';
import { openApptainer } from '../test/world/apptainer.ts';
import { type Registry, startRegistry } from '../test/world/registry.ts';
import { type Sluice, startMeasuredSluice } from '../test/world/sluice.ts';
import type { Part } from './report.ts';
import { watchMemory } from './resident-memory.ts';
import { interleave, median, ratio } from './stats.ts';

const rounds = 3;
const pollMs = 20;

/** (h) A Singularity image of a distribution, made and pushed, compared with `apptainer build` and `apptainer push`. */
export async function sif(): Promise<Part[]> {
  await using registry = await startRegistry();
  const pusher = await Pusher.open(registry, 'distribution');
  await pusher.push(imageOf({ layers: [await distributionLayer()] }), '1');
  await pusher.close();
  await using sluice = await startMeasuredSluice({
    config: {
      limits: { builds: { anonymous: 'off' } },
      registries: { [registry.host]: { plainHttp: true } },
    },
  });
  const image = `${registry.host}/distribution:1`;
  const sizes = { ours: 0, theirs: 0 };
  const memory = watchMemory(sluice.process.pid ?? 0);
  const { ours, theirs } = await interleave(
    {
      async ours() {
        const began = performance.now();
        const target = await convertBySluice(sluice, image, registry);
        const took = performance.now() - began;
        sizes.ours = await sizeOf(registry, target);
        return took;
      },
      async theirs() {
        // With empty caches each time, because Sluice keeps none.
        await using apptainer = await openApptainer();
        const file = apptainer.join('root', 'home', 'image.sif');
        const name = `oras://${registry.host}/bench/${randomUUID()}:1`;
        const began = performance.now();
        for (const args of [
          ['build', '--no-https', file, `docker://${image}`],
          ['push', '--no-https', file, name],
        ]) {
          const { code, stderr } = await apptainer.run(args, { timeoutMs: 600_000 });
          if (code !== 0) throw new Error(stderr);
        }
        const took = performance.now() - began;
        sizes.theirs = (await stat(file)).size;
        return took;
      },
    },
    rounds,
  );
  const peak = Math.max(...memory.next());
  memory.stop();
  const seconds = (values: readonly number[]) => `${(median(values) / 1000).toFixed(1)} s`;
  const mebibytes = (bytes: number) => `${(bytes / 2 ** 20).toFixed(1)} MiB`;
  return [
    {
      letter: 'h',
      title: 'A Singularity image of a distribution, from registry to registry',
      rows: [
        {
          what: 'Time: Sluice : apptainer build and push',
          figure: ratio(ours, theirs).toFixed(2),
          aim: 'at most 0.4',
          medians: `${seconds(ours)} : ${seconds(theirs)}`,
        },
        {
          what: 'Size of the file: Sluice : apptainer',
          figure: (sizes.ours / sizes.theirs).toFixed(3),
          aim: 'at most 1.02',
          medians: `${mebibytes(sizes.ours)} : ${mebibytes(sizes.theirs)}`,
        },
        {
          what: 'Resident memory of Sluice meanwhile',
          figure: mebibytes(peak),
          aim: 'under 300 MB',
          medians: '',
        },
      ],
    },
  ];
}

/** Makes and pushes the image. Returns the repository and tag. */
async function convertBySluice(
  sluice: Sluice,
  containerImage: string,
  { host }: Registry,
): Promise<string> {
  const response = (await sluice.request({
    containerImage,
    format: 'sif',
    freeze: true,
    buildRepository: `${host}/bench/${randomUUID()}`,
  })) as unknown as { buildId: string; targetImage: string };
  for (;;) {
    const state = await sluice.fetch(`/v1alpha1/builds/${response.buildId}/status`);
    const { status, succeeded } = (await state.json()) as { status: string; succeeded?: boolean };
    if (status === 'COMPLETED' && succeeded) return response.targetImage;
    if (status === 'COMPLETED') throw new Error(`the conversion ${response.buildId} failed`);
    await sleep(pollMs);
  }
}

async function sizeOf({ url }: Registry, target: string): Promise<number> {
  const [, repository = '', tag = ''] = /^oras:\/\/[^/]+\/(.*):([^:]+)$/.exec(target) ?? [];
  const response = await fetch(`${url}/v2/${repository}/manifests/${tag}`, {
    headers: { accept: 'application/vnd.oci.image.manifest.v1+json' },
  });
  const { layers } = (await response.json()) as { layers: { size: number }[] };
  return layers[0]?.size ?? Number.NaN;
}
