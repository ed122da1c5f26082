/** A password is sent only to the named registry. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { postJson } from '../faults/fault-world.ts';
import { assertApiFault, call, type Reply } from '../faults/http-client.ts';
import { startScriptedUpstream } from '../faults/scripted-upstream.ts';
import { startRegistry } from '../world/registry.ts';
import { type Sluice, startSluice } from '../world/sluice.ts';

const valid = (sluice: Sluice, registry: string, password: string): Promise<Reply> =>
  call(`${sluice.url}/v1alpha2/validate-creds`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ registry, userName: 'tester', password }),
  });

suite('a check of credentials', () => {
  test('refuses a name that is not a registry, so that Docker Hub does not get the password', async () => {
    await using sluice = await startSluice();
    for (const registry of ['harbor', 'quayio', '0', 'https://harbor/v2/', 'team/app', '1.2']) {
      const reply = await valid(sluice, registry, 'hunter2');
      assertApiFault(reply, 400, /'registry' is not the name of a registry.*docker\.io/);
    }
    await sluice.stop();
    assert.ok(!sluice.output().includes('docker.io:443'));
  });

  test('with many simultaneous checks allows no more wrong passwords than the limit', async () => {
    const config = { accounts: { tester: 'right' }, limits: { logins: '5/minute' } };
    await using sluice = await startSluice({ config });
    assert.equal((await valid(sluice, sluice.host, 'right')).body.toString(), 'true');
    const guesses = Array.from({ length: 60 }, (_, at) => valid(sluice, sluice.host, `wrong${at}`));
    const statuses = (await Promise.all(guesses)).map(({ status }) => status);
    assert.equal(statuses.filter(status => status === 200).length, 5);
    assert.equal(statuses.filter(status => status === 429).length, 55);
  });

  test('does not take a website that redirects for a registry that accepts the password', async () => {
    await using website = await startScriptedUpstream();
    website.on('GET /v2/', (_, response) =>
      response.writeHead(301, { location: 'https://www.example.com/' }).end(),
    );
    await using sluice = await startSluice({
      config: { registries: { [website.host]: { plainHttp: true } } },
    });
    const reply = await valid(sluice, website.host, 'anything');
    assertApiFault(reply, 502, /answered 301 to a login: .*check that it is a registry/);
  });

  test('accepts a registry in every spelling', async () => {
    await using registry = await startRegistry({ auth: 'basic' });
    await using sluice = await startSluice({
      config: { registries: { [registry.host]: { plainHttp: true } } },
    });
    for (const name of [registry.host, `http://${registry.host}`, `${registry.host}/v2/`]) {
      assert.equal((await valid(sluice, name, registry.password)).body.toString(), 'true', name);
      assert.equal((await valid(sluice, name, 'wrong')).body.toString(), 'false', name);
    }
    // The older path takes the fields in either form.
    const login = { registry: registry.host, userName: 'tester', password: registry.password };
    for (const body of [login, { request: login }]) {
      const reply = await postJson(`${sluice.url}/validate-creds`, body);
      assert.deepEqual([reply.status, reply.body.toString()], [200, 'true']);
    }
    for (const body of [{}, { request: { ...login, registry: 'harbor' } }]) {
      const reply = await postJson(`${sluice.url}/validate-creds`, body);
      assertApiFault(reply, 400, /'registry' is /);
    }
  });
});
