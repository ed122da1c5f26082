/** Rights in hosted repositories, as clients see them. */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { type Pushed, pushCorpus } from '../corpus/corpus.ts';
import { basic } from '../hosted/push-client.ts';
import {
  type Client,
  clientsOf,
  copy,
  forgetLogins,
  login,
  pull,
  storeLogin,
} from '../world/clients.ts';
import { startDocker } from '../world/docker.ts';
import type { Result } from '../world/program.ts';
import { type Registry, startRegistry } from '../world/registry.ts';
import { openRoot, type Root } from '../world/root.ts';
import { type Sluice, startSluice } from '../world/sluice.ts';
import { outerSuites } from '../world/tools.ts';
import { accounts, admin, ci, inspectHosted, reader, stale } from './hosted.ts';
import { assertSuccess } from './served.ts';

// These clients contact the registry at login; the others only store the credentials.
const checking: readonly Client[] = ['podman', 'buildah', 'skopeo', 'oras'];

suite('rights in hosted repositories', { concurrency: 2 }, () => {
  let registry: Registry;
  let sluice: Sluice;
  let source: Pushed;

  before(async () => {
    registry = await startRegistry();
    const pushed = (await pushCorpus(registry, ['cfg:full'])).get('cfg:full');
    assert.ok(pushed);
    source = pushed;
    sluice = await startSluice({ config: { accounts } });
    await using root = await openRoot('forky');
    await storeLogin(root, sluice.host, admin);
    for (const repository of ['public/app', 'team/app', 'secret/app']) {
      assertSuccess(await copy(root, 'skopeo', source.reference, at(repository)));
    }
  });
  after(async () => {
    await sluice?.stop();
    await registry?.stop();
  });

  const at = (repository: string) => `${sluice.host}/${repository}:1`;

  const assertAbsent = async (repository: string) => {
    const response = await sluice.fetch(`/v2/${repository}/manifests/1`, {
      headers: basic(admin.username, admin.password),
    });
    assert.equal(response.status, 404, `${repository} was pushed`);
  };

  const status = async (path: string, headers: Record<string, string>) => {
    const response = await sluice.fetch(path, { headers });
    const text = await response.text();
    return { status: response.status, challenge: response.headers.get('www-authenticate'), text };
  };

  for (const name of outerSuites) {
    for (const client of clientsOf(name)) {
      test(`${client} of ${name} has the rights of its account`, async () => {
        await using root = await openRoot(name);
        const repository = `team/${client}-${name}`;
        const push = (to: string) => copy(root, client, source.reference, at(to));

        assertRefused(await push(repository), 'an anonymous push');
        assertRefused(await pull(root, client, at('team/app')), 'an anonymous pull');
        assertSuccess(await pull(root, client, at('public/app')), 'an anonymous pull');

        const wrong = await login(root, client, sluice.host, stale);
        if (checking.includes(client)) assertRefused(wrong, 'a wrong password');
        else assertSuccess(wrong);
        await forgetLogins(root);

        assertSuccess(await login(root, client, sluice.host, reader));
        assertSuccess(await pull(root, client, at('team/app')), 'the reader pulls');
        assertRefused(await push(repository), 'a push of the reader');

        assertSuccess(await login(root, client, sluice.host, ci));
        for (const where of ['secret/app', `secret/${client}-${name}`]) {
          assertRefused(await push(where), 'a push elsewhere');
          assertRefused(await pull(root, client, at(where)), 'a pull from elsewhere');
        }
        assertRefused(await push(`public/${client}-${name}`), 'a push to a public repository');
        await assertAbsent(`secret/${client}-${name}`);
        await assertAbsent(`public/${client}-${name}`);
        await assertAbsent(repository);
        assertSuccess(await push(repository), 'the push');
        await inspectHosted(sluice, repository, '1');
      });
    }

    test(`Docker of ${name} has the rights of its account`, async () => {
      await using docker = await startDocker({ suite: name });
      const repository = `team/docker-${name}`;
      assertSuccess(await docker.pull(source.reference));
      const push = (to: string) => docker.push(source.reference, at(to));

      assertRefused(await push(repository), 'an anonymous push');
      assertRefused(await docker.pull(at('team/app')), 'an anonymous pull');
      assertSuccess(await docker.pull(at('public/app')), 'an anonymous pull');
      assertRefused(await docker.login(sluice.host, stale), 'a wrong password');
      assertSuccess(await docker.login(sluice.host, reader));
      assertSuccess(await docker.pull(at('team/app')), 'the reader pulls');
      assertRefused(await push(repository), 'a push of the reader');
      assertSuccess(await docker.login(sluice.host, ci));
      for (const where of ['secret/app', 'secret/none']) {
        assertRefused(await push(where), 'a push elsewhere');
        await docker.docker(['image', 'rm', at(where)]);
        assertRefused(await docker.pull(at(where)), 'a pull from elsewhere');
      }
      await assertAbsent(repository);
      assertSuccess(await push(repository), 'the push');
      assertSuccess(await docker.docker(['logout', sluice.host]));
      assertRefused(await docker.pull(at(repository)), 'a pull after the logout');
    });
  }

  test('an answer does not reveal whether a repository exists', async () => {
    await using root = await openRoot('forky');
    const token = async (scope: string, headers: Record<string, string>) => {
      const response = await sluice.fetch(`/v2/token?scope=${scope}`, { headers });
      const { token } = (await response.json()) as { token: string };
      return { authorization: `Bearer ${token}` };
    };
    const ciBasic = basic(ci.username, ci.password);
    for (const route of ['manifests/1', `blobs/${source.digest}`, 'tags/list']) {
      const responses = ['secret/app', 'secret/none'].map(async repository => {
        const path = `/v2/${repository}/${route}`;
        const scope = `repository:${repository}:pull,push,delete`;
        const seen = [
          await status(path, {}),
          await status(path, ciBasic),
          await status(path, await token(scope, {})),
          await status(path, await token(scope, ciBasic)),
        ];
        const text = JSON.stringify(seen).replaceAll(repository, 'secret/x');
        return text.replace(/errorId[^,}]*/g, '');
      });
      const [existing, missing] = await Promise.all(responses);
      assert.equal(existing, missing, route);
    }
    await storeLogin(root, sluice.host, ci);
    for (const command of [
      ['crane', 'manifest', '--insecure'],
      ['oras', 'manifest', 'fetch', '--plain-http'],
      ['crane', 'ls', '--insecure'],
    ]) {
      const [existing, missing] = await Promise.all(
        ['secret/app', 'secret/none'].map(async repository => {
          const name = command.includes('ls') ? `${sluice.host}/${repository}` : at(repository);
          const { stderr } = assertRefused(await root.exec([...command, name]), command.join(' '));
          return stderr
            .replace(/none|app/g, 'x')
            .replace(/[0-9a-f]{12}\b|\d{4}\/\d\d\/\d\d \S+/g, '');
        }),
      );
      assert.equal(existing, missing);
    }
  });

  test('crane, skopeo and oras can delete for the administrator only', async () => {
    await using root = await openRoot('forky');
    const commands: Record<string, (reference: string) => readonly string[]> = {
      skopeo: reference => ['skopeo', 'delete', '--tls-verify=false', `docker://${reference}`],
      crane: reference => ['crane', 'delete', '--insecure', reference],
      oras: reference => ['oras', 'manifest', 'delete', '--plain-http', '--force', reference],
    };
    for (const [client, command] of Object.entries(commands)) {
      const repository = `team/deleted-${client}`;
      await pushAsCi(root, repository);
      assertRefused(await root.exec(command(at(repository))), `${client} deletes as ci`);
      const { digest } = await inspectHosted(sluice, repository, '1');
      await storeLogin(root, sluice.host, admin);
      assertSuccess(await root.exec(command(at(repository))), `${client} deletes`);
      await assertAbsent(repository);
      const rest = await status(`/v2/${repository}/manifests/${digest}`, adminBasic);
      // crane deletes the given tag.
      assert.equal(rest.status, client === 'crane' ? 200 : 404, client);
      const byDigest = `${sluice.host}/${repository}@${digest}`;
      if (client === 'crane') assertSuccess(await root.exec(command(byDigest)), 'by digest');
      assertRefused(await pull(root, 'skopeo', byDigest), 'a pull of a deleted image');
    }
  });

  const adminBasic = basic(admin.username, admin.password);

  const pushAsCi = async (root: Root, repository: string) => {
    await storeLogin(root, sluice.host, ci);
    assertSuccess(await copy(root, 'skopeo', source.reference, at(repository)));
  };
});

/** The client reports a refusal, and does not just crash. */
function assertRefused(result: Result, what: string): Result {
  assert.ok(result.code > 0, `${what} succeeded: ${result.stdout}`);
  assert.match(result.stderr, refusal, what);
  return result;
}

// The last one: oras 1.2 may panic where two of its uploads are refused at once.
const refusal =
  /denied|unauthorized|authentication required|authorization failed|\b40[134]\b|invalid username|manifest unknown|oras-go\/internal\/syncutil/i;
