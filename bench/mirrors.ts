import { randomBytes } from 'node:crypto';
import {
  type Content,
  describe,
  jsonContent,
  mediaTypes,
  streamedContent,
} from '../test/corpus/content.ts';
import { Pusher } from '../test/corpus/push.ts';
import { copy } from '../test/world/clients.ts';
import { startRegistry } from '../test/world/registry.ts';
import { openRoot } from '../test/world/root.ts';
import { startMeasuredSluice } from '../test/world/sluice.ts';
import type { Part } from './report.ts';
import { interleave, median, ratio } from './stats.ts';

const rounds = 3;
const pieceBytes = 1024 * 1024;
const layers = 8;
const layerPieces = 128;

/** (p) Mirrors of an image of 1 GiB from one docker-registry to another, compared with other tools. */
export async function mirrors(): Promise<Part[]> {
  await using source = await startRegistry();
  await using target = await startRegistry();
  await using sluice = await startMeasuredSluice({
    config: {
      buildkit: ['off'],
      limits: { builds: { anonymous: 'off' } },
      registries: {
        [source.host]: { plainHttp: true },
        [target.host]: { plainHttp: true, anonymous: true },
      },
    },
  });
  await using root = await openRoot('forky');
  const pusher = await Pusher.open(source, 'bench/image');
  const image = largeImage();
  await pusher.push(image, 'large');
  for (let tag = 0; tag <= rounds; tag += 1) await pusher.push(image, `again-${tag}`);
  await pusher.close();

  // Each copy has a repository of its own, so that the registry has nothing of it.
  let copies = 0;
  const name = (tag: string) => `${source.host}/bench/image:${tag}`;
  const timed = async (work: () => Promise<void>) => {
    const began = performance.now();
    await work();
    return performance.now() - began;
  };
  const mirror = async (tag: string, repository: string) => {
    const { requestId } = await sluice.request({
      containerImage: name(tag),
      buildRepository: `${target.host}/${repository}`,
      mirror: true,
      nameStrategy: 'none',
    });
    const status = `/v1alpha2/container/${requestId}/status`;
    const ended = await sluice.fetch(`${status}`);
    const { mirrorId } = (await ended.json()) as { mirrorId: string };
    await (await sluice.fetch(`/v1alpha1/builds/${mirrorId}/logs?follow=true`)).text();
    const { succeeded } = (await (await sluice.fetch(status)).json()) as { succeeded?: boolean };
    if (succeeded !== true) throw new Error(`The mirror ${mirrorId} failed`);
  };
  const byClient = async (client: 'crane' | 'skopeo') => {
    copies += 1;
    // With its memory of copies, skopeo would mount the layers of the last one.
    await root.exec(['rm', '-rf', '/var/lib/containers/cache']);
    const { code, stderr } = await copy(
      root,
      client,
      name('large'),
      `${target.host}/copy/${copies}:large`,
    );
    if (code !== 0) throw new Error(stderr);
  };
  const times = await interleave(
    {
      ours: () => timed(() => mirror('large', `copy/${++copies}`)),
      crane: () => timed(() => byClient('crane')),
      skopeo: () => timed(() => byClient('skopeo')),
    },
    rounds,
  );
  let tags = 0;
  const { again } = await interleave(
    { again: () => timed(() => mirror(`again-${tags++}`, `copy/${copies}`)) },
    rounds,
  );
  const seconds = (figures: readonly number[]) => `${(median(figures) / 1000).toFixed(1)} s`;
  return [
    {
      letter: 'p',
      title: 'Mirrors between two registries on the same disk',
      rows: [
        ...(['crane', 'skopeo'] as const).map(peer => ({
          what: `Time for an image of 1 GiB in ${layers} layers: Sluice : ${peer} copy`,
          figure: ratio(times.ours, times[peer]).toFixed(2),
          aim: 'at most 1.0',
          medians: `${seconds(times.ours)} : ${seconds(times[peer])}`,
        })),
        {
          what: 'Another tag of it, whose layers are there',
          figure: `${Math.round(median(again))} ms`,
          aim: 'at most 300 ms',
          medians: `${again.map(Math.round).join(', ')} ms`,
        },
      ],
    },
  ];
}

function largeImage() {
  const contents = Array.from({ length: layers }, randomLayer);
  const config = jsonContent(mediaTypes.ociConfig, {
    architecture: 'amd64',
    os: 'linux',
    config: {},
    rootfs: { type: 'layers', diff_ids: contents.map(({ digest }) => digest) },
  });
  const root = jsonContent(mediaTypes.ociManifest, {
    schemaVersion: 2,
    mediaType: mediaTypes.ociManifest,
    config: describe(config),
    layers: contents.map(content => describe(content)),
  });
  return { root, children: [], blobs: [config, ...contents] };
}

/** Nobody looks into it: it is copied. */
function randomLayer(): Content {
  const piece = randomBytes(pieceBytes);
  return streamedContent(mediaTypes.ociLayer, function* read() {
    for (let at = 0; at < layerPieces; at += 1) {
      piece.writeUInt32LE(at, 0);
      yield Buffer.from(piece);
    }
  });
}
