/** What clients do in a round. Each piece of work throws when the server did something wrong. */
import assert from 'node:assert/strict';
import { get as secureGet } from 'node:https';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { type Call, call } from '../faults/http-client.ts';
import { emptyLayer, pattern, type ScriptedImage } from '../faults/scripted-upstream.ts';
import { admin, Repository } from '../hosted/push-client.ts';
import { eventually } from '../world/eventually.ts';
import type { ContainerResponse, Sluice } from '../world/sluice.ts';
import { packageCount, type SoakWorld } from './soak-world.ts';

/** A round; images and packages come again after some rounds, so that caches are full soon, and names are new in each. */
export interface Round {
  readonly world: SoakWorld;
  readonly number: number;
  /** The server that is asked. */
  readonly server: Sluice;
}

export type Work = (round: Round) => Promise<void>;

const variants = 4;
const layerBytes = 150_000;
const large = pattern(3_000_000, 'soak, large');
const inline = { location: `data:${emptyLayer.toString('base64')}` };
const pages = [
  ...['/', '/docs', '/view/builds', '/view/repositories', '/view/usage', '/view/usage/pulls'],
  ...['/view/usage/builds', '/view/usage/disk', '/view/usage/limits', '/view/usage/health'],
  ...['/view/inspect', '/view/account', '/view/login', '/metrics', '/service-info', '/nowhere'],
] as const;

const images = new Map<string, ScriptedImage>();

function imageOf({ world }: Round, kind: 'relay' | 'cache', variant: number): ScriptedImage {
  const key = `${world[kind].host} ${variant}`;
  const known = images.get(key);
  if (known) return known;
  const layers = [0, 1].map(at => pattern(layerBytes, `${kind} ${variant} ${at}`));
  const image = world[kind].image(`soak/${kind}-${variant}`, [...layers, emptyLayer]);
  images.set(key, image);
  return image;
}

async function post(
  { server }: Round,
  path: string,
  body: object,
  statuses: readonly number[] = [200],
  signal?: AbortSignal,
): Promise<ContainerResponse> {
  const response = await server.fetch(path, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...admin },
    body: JSON.stringify(body),
    ...(signal ? { signal } : {}),
  });
  const text = await response.text();
  assert.ok(statuses.includes(response.status), `${path}: ${response.status}: ${text}`);
  return JSON.parse(text);
}

const requestOf = (image: ScriptedImage, number: number) => ({
  containerImage: image.name,
  containerConfig: { env: [`VARIANT=${number % variants}`], layers: [inline] },
});

async function expect(url: string, status: number, options?: Call): Promise<Buffer> {
  const reply = await call(url, options);
  assert.equal(reply.status, status, `${url}: ${reply.body.subarray(0, 300)}`);
  assert.ok(reply.isWhole, url);
  return reply.body;
}

/** Container requests for images of both registries, and pulls of all their parts by their names. */
export const pullServed: Work = async round => {
  for (const kind of ['relay', 'cache'] as const) {
    for (let variant = 0; variant < variants; variant += 1) {
      const asked = requestOf(imageOf(round, kind, variant), round.number);
      const { targetImage } = await post(round, '/v1alpha2/container', asked);
      const at = (route: string) => round.server.at(targetImage, route);
      const manifest = JSON.parse(String(await expect(at('manifests/latest'), 200)));
      await expect(at('manifests/latest'), 200, { method: 'HEAD' });
      const parts = [manifest.config, ...manifest.layers] as { digest: string }[];
      await Promise.all(parts.map(({ digest }) => expect(at(`blobs/${digest}`), 200)));
    }
  }
};

/** A push, a pull with a token as docker sends it, and the deletion of the image. */
export const pushAndDelete: Work = async ({ server, number }) => {
  const name = `soak/app-${number % variants}`;
  const repository = new Repository(server, name);
  const digest = await repository.pushImage(`r${number}`, [
    pattern(layerBytes, `pushed ${number % variants}`),
    Buffer.from(`round ${number}`),
  ]);
  const asked = `${server.url}/v2/token?service=soak&scope=repository:${name}:pull`;
  const { token } = JSON.parse(String(await expect(asked, 200, { headers: admin })));
  const headers = { authorization: `Bearer ${token}` };
  const bytes = await expect(`${repository.url}/manifests/r${number}`, 200, { headers });
  const { config, layers } = JSON.parse(String(bytes));
  for (const part of [config, ...layers]) {
    await expect(`${repository.url}/blobs/${part.digest}`, 200, { headers });
  }
  await expect(`${repository.url}/tags/list`, 200, { headers });
  await expect(`${repository.url}/manifests/${digest}`, 202, { method: 'DELETE', headers: admin });
  await expect(`${repository.url}/manifests/${digest}`, 404, { headers });
};

/** Environments of Conda, made by the server itself: their logs, as text and as events, and their images. */
export const build: Work = async round => {
  const { server, number } = round;
  const at = number % packageCount;
  const entries = [`package-${at}`, `package-${(at + 1) % packageCount}`];
  const base = imageOf(round, 'relay', 0).name;
  const { buildId = '', targetImage } = await post(round, '/v1alpha2/container', {
    packages: {
      ...{ type: 'CONDA', entries, channels: ['soak'] },
      condaOpts: { baseImage: base, basePackages: '' },
    },
  });
  const path = `/v1alpha1/builds/${buildId}`;
  const leaving = new AbortController();
  const events = { accept: 'text/event-stream', ...admin };
  const left = server.fetch(`${path}/logs`, { headers: events, signal: leaving.signal });
  left.then(response => response.text()).catch(() => {});
  const log = await (await server.fetch(`${path}/logs?follow=true`, { headers: admin })).text();
  leaving.abort();
  const status = (await (await server.fetch(`${path}/status`, { headers: admin })).json()) as {
    readonly succeeded?: boolean;
  };
  assert.equal(status.succeeded, true, log);
  await expect(server.at(targetImage, `manifests/${targetImage.split(':').at(-1)}`), 200);
  // The same packages are built again in a later round.
  const built = new Repository(server, 'builds');
  const { tags } = JSON.parse(String((await built.get('tags/list')).body)) as { tags: string[] };
  for (const tag of tags) await deleteAll(built, tag);
};

/** Deletes a manifest, those that refer to it, and those that it lists. */
async function deleteAll(repository: Repository, reference: string): Promise<void> {
  const { headers, body } = await repository.get(`manifests/${reference}`);
  const digest = String(headers['docker-content-digest']);
  const listed = (JSON.parse(String(body)).manifests ?? []) as { digest: string }[];
  const referrers = JSON.parse(String((await repository.get(`referrers/${digest}`)).body));
  assert.equal((await repository.send('DELETE', `manifests/${digest}`)).status, 202);
  for (const one of [...listed, ...referrers.manifests]) await deleteAll(repository, one.digest);
}

/** An image that is frozen in a hosted repository, pulled and deleted. */
export const freeze: Work = async round => {
  const { server } = round;
  const name = 'soak/frozen';
  const { targetImage, buildId } = await post(round, '/v1alpha2/container', {
    ...requestOf(imageOf(round, 'cache', 1), round.number),
    ...{ freeze: true, buildRepository: `${round.world.ownHost}/${name}` },
  });
  const logs = `/v1alpha1/builds/${buildId}/logs?follow=true`;
  const log = await (await server.fetch(logs, { headers: admin })).text();
  const reference = targetImage.split(':').at(-1);
  const repository = new Repository(server, name);
  const reply = await repository.get(`manifests/${reference}`);
  assert.equal(reply.status, 200, `${reply.body}\n${buildId}\n${log}`);
  const digest = reply.headers['docker-content-digest'];
  assert.equal((await repository.send('DELETE', `manifests/${digest}`)).status, 202);
};

export const readPages: Work = async round => {
  for (const path of pages) {
    const headers = { accept: 'text/html', ...admin };
    const reply = await call(round.server.url + path, { headers });
    assert.ok(reply.status < 500, `${path}: ${reply.status}`);
  }
  const image = encodeURIComponent(imageOf(round, 'relay', 2).name);
  const shown = `${round.server.url}/view/inspect?image=${image}`;
  await expect(shown, 200, { headers: { accept: 'text/html', ...admin } });
};

/** Requests that are refused: wrong passwords, unknown names, bodies that are none. */
export const mistakes: Work = async round => {
  const { server, number } = round;
  const wrong = new Repository(server, 'soak/app-0', {
    authorization: `Basic ${Buffer.from(`nobody-${number}:wrong`).toString('base64')}`,
  });
  assert.equal((await wrong.get('tags/list')).status, 401);
  await expect(`${server.url}/v2/ct/${number}absent/soak/x/manifests/latest`, 404);
  await post(round, '/v1alpha2/container', { containerImage: 3 }, [400]);
  const unknown = `${round.world.relay.host}/soak/unknown-${number}:latest`;
  await post(round, '/v1alpha2/container', { containerImage: unknown }, [400, 404]);
};

/** Clients that leave in the middle of a pull, an upload and a request. */
export const leave: Work = async round => {
  const { server, number, world } = round;
  const image = world.relay.image('soak/large', [large]);
  const { targetImage } = await post(round, '/v1alpha2/container', requestOf(image, number));
  const blob = server.at(targetImage, `blobs/${image.layers[0]?.digest}`);
  for (let at = 0; at < 3; at += 1) {
    const leaving = new AbortController();
    const response = await fetch(blob, { signal: leaving.signal });
    await response.body?.getReader().read();
    leaving.abort();
  }
  const repository = new Repository(server, 'soak/left');
  const uploads = new URL(await repository.begin(), server.url);
  const leaving = new AbortController();
  const body = new ReadableStream({
    async pull(controller) {
      controller.enqueue(new Uint8Array(50_000));
      await nextTurn();
      if (leaving.signal.aborted) controller.error(leaving.signal.reason);
      leaving.abort();
    },
  });
  const init = { method: 'PATCH', headers: admin, body, duplex: 'half', signal: leaving.signal };
  await fetch(uploads, init as RequestInit).catch(() => {});
  // One that nobody continues.
  await repository.begin();
  const soon = AbortSignal.timeout(2);
  await post(round, '/v1alpha2/container', requestOf(image, number), [200], soon).catch(() => {});
};

/** The registries are away, and come back. */
export const outage: Work = async round => {
  const { world } = round;
  const asked = requestOf(imageOf(round, 'relay', 1), round.number);
  const image = world.relay.image('soak/away', [pattern(1000, 'away')]);
  const { targetImage } = await post(round, '/v1alpha2/container', requestOf(image, round.number));
  world.outage = true;
  try {
    await post(round, '/v1alpha2/container', asked, [200, 502, 503]);
    await call(round.server.at(targetImage, `blobs/${image.layers[0]?.digest}`));
  } finally {
    world.outage = false;
  }
  await eventually('the registry is asked again', async () => {
    const headers = { 'content-type': 'application/json', ...admin };
    const body = JSON.stringify(asked);
    return (
      (await call(`${round.server.url}/v1alpha2/container`, { method: 'POST', headers, body }))
        .status === 200
    );
  });
};

/** The certificate is renewed while a client has a connection, and others come. */
export const renew: Work = async ({ world }) => {
  if (world.secure === undefined) return;
  const answer = (agent: ReturnType<SoakWorld['agent']>) =>
    new Promise<void>((resolve, reject) => {
      const sent = secureGet(`https://${world.secure}/healthz`, { agent }, response => {
        response.resume().on('end', resolve).on('error', reject);
      });
      sent.on('error', reject);
    });
  const kept = world.agent();
  await answer(kept);
  await world.renewCertificate();
  for (let at = 0; at < 5; at += 1) {
    const other = world.agent();
    await answer(other);
    other.destroy();
  }
  await answer(kept);
  kept.destroy();
};

/** What reads the log stops for a moment, as one that changes to its next file. */
export const rotateLog: Work = async ({ server }) => {
  const { stdout } = server.process;
  stdout?.pause();
  await expect(`${server.url}/healthz`, 200);
  await new Promise(resolve => setTimeout(resolve, 20));
  stdout?.resume();
};

export const works: readonly Work[] = [
  ...[pullServed, pushAndDelete, build, freeze, readPages, mistakes, leave, outage, renew],
  rotateLog,
];
