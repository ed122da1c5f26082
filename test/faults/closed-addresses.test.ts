import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { assertLogged, type FaultWorld, startFaultWorld } from './fault-world.ts';
import { assertApiFault, call } from './http-client.ts';
import { type ScriptedUpstream, startScriptedUpstream } from './scripted-upstream.ts';

let world: FaultWorld;
/** Listens, but is not listed. */
let secret: ScriptedUpstream;
const faultIds: string[] = [];

before(async () => {
  secret = await startScriptedUpstream();
  world = await startFaultWorld({
    upstream: {},
    registries: { 'forbidden.test': {}, '10.0.0.77': { allowPrivateAddress: false } },
  });
});

after(async () => {
  assertLogged(await world.log(), faultIds);
  assert.deepEqual(secret.requests, []);
  assert.equal(secret.connections(), 0, 'not even connected to');
  await Promise.all([world[Symbol.asyncDispose](), secret.stop()]);
});

const refused = (host: string) =>
  new RegExp(`'${host.replace(/[.[\]]/g, '\\$&')}' is at a loopback, private or otherwise closed`);

test('an unlisted registry at a closed address is refused by name', async () => {
  const port = secret.host.split(':').at(-1);
  const hosts = [
    secret.host,
    `localhost:${port}`,
    `127.1.2.3:${port}`,
    '10.0.0.5',
    '10.0.0.77',
    '169.254.169.254',
    '100.64.0.1:5000',
    '192.168.1.1:8443',
    `[::1]:${port}`,
    `[::ffff:127.0.0.1]:${port}`,
    '[fd00::1]:5000',
    '[64:ff9b::7f00:1]:5000',
  ];
  for (const host of hosts) {
    const reply = await world.ask({ containerImage: `${host}/team/app:1` });
    faultIds.push(
      assertApiFault(reply, 400, /closed network address, which is refused: the operator/),
    );
    assert.ok(reply.body.includes(host.startsWith('[::ffff') ? '[::ffff:' : host), host);
  }
});

test('a layer URL at a closed address is refused by name', async () => {
  const image = world.upstreams.relay.image('guard/layers');
  for (const base of [
    `http://${secret.host}`,
    `http://localhost:${secret.host.split(':').at(-1)}`,
    'http://169.254.169.254',
    'http://2130706433',
    'http://0x7f.1',
    'http://[::ffff:10.0.0.1]',
  ]) {
    const reply = await world.ask({
      containerImage: image.name,
      containerConfig: { layers: [{ location: `${base}/layer.tar.gz?signature=hush` }] },
    });
    faultIds.push(
      assertApiFault(
        reply,
        400,
        /containerConfig\.layers\[0\] could not be fetched from .* closed/,
      ),
    );
    assert.match(reply.body.toString(), refused(new URL(base).host));
    assert.ok(!reply.body.includes('hush'));
  }
});

test('a layer URL that redirects to a closed address is refused', async () => {
  const { relay } = world.upstreams;
  const image = relay.image('guard/redirected');
  relay.on('/layer.tar.gz', (_request, response) => {
    response.writeHead(302, { location: `http://${secret.host}/layer.tar.gz` });
    response.end();
  });
  const reply = await world.ask({
    containerImage: image.name,
    containerConfig: { layers: [{ location: `http://${relay.host}/layer.tar.gz` }] },
  });
  faultIds.push(
    assertApiFault(reply, 403, new RegExp(`redirects to '${secret.host}', a loopback`)),
  );
});

test('inspect applies the same checks as a request', async () => {
  const reply = await call(`${world.sluice.url}/v1alpha1/inspect`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ containerImage: `${secret.host}/team/app:1` }),
  });
  faultIds.push(assertApiFault(reply, 400, refused(secret.host)));
});
