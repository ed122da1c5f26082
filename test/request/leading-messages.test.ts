/** Messages name the cause first, and then what to do. */
import assert from 'node:assert/strict';
import type { ServerResponse } from 'node:http';
import { after, before, suite, test } from 'node:test';
import { digestOf } from '../../src/oci/digest.ts';
import { type FaultWorld, startFaultWorld } from '../faults/fault-world.ts';
import { assertApiFault } from '../faults/http-client.ts';
import { emptyLayer } from '../faults/scripted-upstream.ts';

suite('messages that lead to the cause', { concurrency: 1 }, () => {
  let world: FaultWorld;

  before(async () => {
    world = await startFaultWorld({ layers: { privateHosts: [] } });
  });
  after(() => world[Symbol.asyncDispose]());

  const responsesOf: Readonly<
    Record<string, readonly [response: (to: ServerResponse) => void, status: number, said: RegExp]>
  > = {
    'a page': [
      to => {
        to.writeHead(200, { 'content-type': 'text/html' });
        to.end('<!doctype html><title>Please\n log in</title>');
      },
      502,
      /127\.0\.0\.1:\d+ answered a web page \("Please log in"\) in place of the manifest of/,
    ],
    nothing: [
      to => to.writeHead(200).end(),
      502,
      /127\.0\.0\.1:\d+ answered nothing in place of the manifest/,
    ],
    'a full project': [
      to => {
        to.writeHead(403, { 'content-type': 'application/json' });
        const message = 'adding 1 MiB of storage resource, which will exceed the configured quota';
        to.end(JSON.stringify({ errors: [{ code: 'DENIED', message }] }));
      },
      403,
      /^The quota at 127\.0\.0\.1:\d+ is used up/,
    ],
  };
  for (const [what, [respond, status, said]] of Object.entries(responsesOf)) {
    test(`${what} in place of a manifest`, async () => {
      const { relay } = world.upstreams;
      const repository = `odd/${what.replaceAll(' ', '-')}`;
      relay.on(`/v2/${repository}/manifests/`, (_, response) => respond(response));
      const reply = await world.ask({ containerImage: `${relay.host}/${repository}:1` });
      assert.match(JSON.parse(reply.body.toString()).message, said);
      assert.equal(reply.status, status);
    });
  }

  test('a redirect to a host without an address names that host', async () => {
    const { relay } = world.upstreams;
    relay.on('/v2/odd/away/manifests/', (_, response) => {
      response.writeHead(307, { location: 'http://nosuchhost.invalid/manifest' }).end();
    });
    const reply = await world.ask({ containerImage: `${relay.host}/odd/away:1` });
    assertApiFault(
      reply,
      400,
      /^127\.0\.0\.1:\d+ redirects to nosuchhost\.invalid, which has no address: check its name\. If no other name/,
    );
  });

  test('Singularity images outside of registries', async () => {
    const file = 'samtools:1.20--h50ea8bc_0';
    const depot = `https://depot.galaxyproject.org/singularity/${file}`;
    for (const name of [depot, depot.replace('https://', '')]) {
      const reply = await world.ask({ containerImage: name });
      assertApiFault(reply, 400, /The same container is quay\.io\/biocontainers\/samtools:1\.20--/);
    }
    const library = await world.ask({ containerImage: 'library://sylabs/examples/lolcow' });
    assertApiFault(library, 400, /is in a Singularity library, not in a registry: send/);
    const hub = await world.ask({ containerImage: 'shub://GodloveD/lolcow' });
    assertApiFault(hub, 400, /Singularity Hub, which has been closed/);
  });

  test('a variable in the header of a definition file', async () => {
    for (const from of ['$'.concat('{IMG}'), 'quay.io/team/$IMG']) {
      const containerFile = Buffer.from(`Bootstrap: docker\nFrom: ${from}\n`).toString('base64');
      const sif = { containerFile, format: 'sif', freeze: true, buildRepository: 'r.test/x' };
      assertApiFault(await world.ask({ ...sif, dryRun: true }), 400, /write \{\{ IMG \}\}/);
    }
  });

  test('layers over an index with images for Windows', async () => {
    const { relay } = world.upstreams;
    const one = relay.image('team/both');
    const entry = (os: string) => ({
      mediaType: 'application/vnd.oci.image.manifest.v1+json',
      ...{ digest: one.digest, size: one.manifest.length },
      platform: { os, architecture: 'amd64' },
    });
    const type = 'application/vnd.oci.image.index.v1+json';
    const index = { schemaVersion: 2, mediaType: type, manifests: ['linux', 'windows'].map(entry) };
    const bytes = Buffer.from(JSON.stringify(index));
    for (const reference of ['both', digestOf(bytes)]) {
      relay.put(`team/both/manifests/${reference}`, type, bytes);
    }
    const layers = [{ location: `data:${emptyLayer.toString('base64')}` }];
    const asked = { containerImage: `${relay.host}/team/both:both`, containerConfig: { layers } };
    const served = await world.ask(asked);
    assert.match(
      served.body.toString(),
      /The images for Windows of .* are served unchanged, because/,
    );
    const buildRepository = `${relay.host}/team/frozen`;
    const frozen = await world.ask({ ...asked, freeze: true, buildRepository });
    assertApiFault(
      frozen,
      400,
      /has images for Windows, to which the layers cannot be added: name/,
    );
  });

  test('a layer at a closed address names the setting of layers', async () => {
    const { relay } = world.upstreams;
    relay.put('layer.tar.gz', 'application/gzip', emptyLayer);
    const layers = [{ location: `http://${relay.host}/v2/layer.tar.gz` }];
    const containerImage = relay.image('team/app').name;
    const reply = await world.ask({ containerImage, containerConfig: { layers } });
    assertApiFault(reply, 400, /by listing it under layers\.privateHosts/);
  });
});
