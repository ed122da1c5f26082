import { type ScriptedUpstream, startScriptedUpstream } from '../faults/scripted-upstream.ts';
import { newAccessToken } from '../world/platform-user.ts';
import { startWatchedSluice, type WatchedSluice } from '../world/watched-sluice.ts';
import type { FuzzWorld } from './ask.ts';

const password = 'pass-word-of-the-administrator';

/** A server with content of every kind, and an upstream that answers. */
export interface RunningFuzzWorld extends AsyncDisposable {
  readonly server: WatchedSluice;
  readonly about: FuzzWorld;
  readonly secrets: readonly string[];
}

export async function startFuzzWorld(): Promise<RunningFuzzWorld> {
  const upstream = await startScriptedUpstream();
  const off = { anonymous: 'off', authenticated: 'off' };
  const server = await startWatchedSluice({
    config: {
      accounts: { admin: password },
      limits: { requests: off, builds: off, pulls: off, logins: 'off' },
      registries: { [upstream.host]: { plainHttp: true, blobs: 'relay' } },
      upstream: { connectTimeout: '1s', headersTimeout: '1s', attempts: 1 },
      hosted: { maxTotalBytes: '64 MiB' },
    },
  });
  const { sluice } = server;
  const basic = `Basic ${Buffer.from(`admin:${password}`).toString('base64')}`;
  const image = upstream.image('team/app');
  const [layer] = image.layers;
  const { containerToken, targetImage } = await sluice.request({ containerImage: image.name });
  const accessToken = await newAccessToken(sluice, { name: 'admin', password }, 'fuzz@example.org');
  await push(server, upstream, basic);
  return {
    server,
    about: {
      host: sluice.host,
      image: image.name,
      served: targetImage.slice(targetImage.indexOf('/') + 1).replace(/:[^/]*$/, ''),
      containerToken,
      buildId: `${'0'.repeat(16)}_1`,
      repository: 'public/fuzz',
      digests: [image.digest, image.configDigest, layer?.digest ?? ''],
      authorizations: [
        basic,
        basic,
        `Bearer ${accessToken}`,
        `Bearer ${accessToken}`,
        ...['Basic Og==', 'Basic x', 'Bearer x', 'Bearer', 'x', 'Basic YWRtaW46eA==', ''],
      ],
      accessToken,
    },
    secrets: [password, sluice.data],
    async [Symbol.asyncDispose]() {
      await Promise.all([server[Symbol.asyncDispose](), upstream.stop()]);
    },
  };
}

/** Puts the image into a hosted repository too. */
async function push(
  { sluice }: WatchedSluice,
  upstream: ScriptedUpstream,
  authorization: string,
): Promise<void> {
  const image = upstream.image('team/app');
  const send = async (path: string, method: string, type: string, body: Uint8Array) => {
    const response = await sluice.fetch(`/v2/public/fuzz/${path}`, {
      method,
      headers: { authorization, 'content-type': type },
      body: new Uint8Array(body),
    });
    if (response.status !== 201) throw new Error(`${response.status}: ${await response.text()}`);
  };
  const config = await fetch(`http://${upstream.host}/v2/team/app/blobs/${image.configDigest}`);
  const blobs = [
    { digest: image.configDigest, bytes: new Uint8Array(await config.arrayBuffer()) },
    ...image.layers,
  ];
  for (const { digest, bytes } of blobs) {
    await send(`blobs/uploads/?digest=${digest}`, 'POST', 'application/octet-stream', bytes);
  }
  const type = 'application/vnd.oci.image.manifest.v1+json';
  await send('manifests/latest', 'PUT', type, image.manifest);
}
