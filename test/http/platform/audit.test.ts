/** The audit log: changes over HTTP and on the command line. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { openDatabase } from '../../../src/storage/rows/database.ts';
import { createAuditLog } from '../../../src/storage/rows/people/audit-log.ts';
import { startFaultWorld } from '../../faults/fault-world.ts';
import { assertSuccess } from '../../integration/served.ts';
import { newAccessToken } from '../../world/platform-user.ts';
import { sluiceCommand } from '../../world/sluice-command.ts';
import { makeTempDir } from '../../world/temp-dir.ts';
import { administrator, basic, startPlatformServer } from './platform-server.ts';

interface Entry {
  readonly actor: string;
  readonly client?: string;
  readonly action: string;
  readonly target: string;
}

suite('the audit log', { concurrency: 2 }, () => {
  test('names who changed what, over HTTP and on the command line, and no secret', async () => {
    await using server = await startPlatformServer();
    const { sluice, must } = server;
    const ada = await server.makeUser('ada@example.org');
    const gone = async (path: string, authorization = administrator) => {
      assert.equal((await server.ask('DELETE', path, authorization)).status, 204, path);
    };
    const keys = { registry: 'quay.io/team', userName: 'robot', password: 'hunter2-secret' };
    const { credentialsId } = await must<{ credentialsId: string }>(
      'POST',
      '/credentials',
      { credentials: { keys } },
      ada.authorization,
    );
    await gone(`/credentials/${credentialsId}`, ada.authorization);
    const { workspace } = await must<{ workspace: { id: number } }>('POST', '/workspaces', {
      name: 'genomics',
    });
    await must('POST', `/workspaces/${workspace.id}/members`, { user: 'ada@example.org' });
    await gone(`/workspaces/${workspace.id}/members/${ada.id}`);
    assert.equal((await server.ask('DELETE', '/users/99', administrator)).status, 404);
    assert.equal((await server.ask('DELETE', `/users/${ada.id}`, basic('admin', 'x'))).status, 401);

    const data = ['--data', sluice.data];
    assertSuccess(await sluiceCommand(['user', 'add', 'bob@example.org', ...data]));
    const token = ['token', 'add', '--user', 'bob@example.org', '--name', 'laptop', ...data];
    const value = assertSuccess(await sluiceCommand(token)).trim();
    assertSuccess(await sluiceCommand(['gc', ...data]));
    assertSuccess(await sluiceCommand(['user', 'remove', 'bob@example.org', ...data]));
    await gone(`/users/${ada.id}`);

    const shown = assertSuccess(await sluiceCommand(['audit', '--json', ...data]));
    const { entries } = JSON.parse(shown) as { entries: Entry[] };
    const [admin, user, line] = ['account admin', 'user ada@example.org', 'command line (root)'];
    assert.deepEqual(
      entries.map(({ actor, action, target }) => [actor, action, target]),
      [
        [admin, 'user.add', 'ada@example.org'],
        [admin, 'token.create', entries[1]?.target],
        [user, 'credentials.add', "'quay.io/team' for quay.io/team of ada@example.org"],
        [user, 'credentials.remove', "'quay.io/team' for quay.io/team of ada@example.org"],
        [admin, 'workspace.add', 'genomics'],
        [admin, 'workspace.add-member', 'ada@example.org in genomics'],
        [admin, 'workspace.remove-member', 'ada@example.org in genomics'],
        [line, 'user.add', 'bob@example.org'],
        [line, 'token.create', "'laptop' of bob@example.org"],
        [line, 'content.remove', '0 contents, 0 bytes'],
        [line, 'user.remove', 'bob@example.org'],
        [admin, 'user.remove', 'ada@example.org'],
      ],
    );
    assert.deepEqual(
      entries.map(({ client }) => client),
      entries.map(({ actor }) => (actor === line ? undefined : '127.0.0.1')),
    );
    for (const secret of ['hunter2', value, ada.accessToken]) assert.ok(!shown.includes(secret));

    const remote = { SLUICE_ACCOUNT: 'admin:admin-s3cret' };
    const last = ['audit', '--limit', '2', '--server', sluice.url];
    assert.match(
      assertSuccess(await sluiceCommand(last, remote)),
      /^TIME +ACTOR +CLIENT +ACTION +TARGET\n\S+Z +command line \(root\) +- +user\.remove +bob@example\.org\n\S+Z +account admin +127\.0\.0\.1 +user\.remove +ada@example\.org\n$/,
    );
    assert.equal((await server.ask('GET', '/audit')).status, 401);
    const other = await server.makeUser('eve@example.org');
    assert.equal((await server.ask('GET', '/audit', other.authorization)).status, 403);
  });

  test('names who pushed and deleted in repositories, and who revoked a container request', async () => {
    await using world = await startFaultWorld({ accounts: { admin: 'secret' } });
    const { sluice, upstreams } = world;
    const headers = { authorization: basic('admin', 'secret') };
    const manifest = JSON.stringify({
      schemaVersion: 2,
      mediaType: 'application/vnd.oci.image.index.v1+json',
      manifests: [],
    });
    const type = { 'content-type': 'application/vnd.oci.image.index.v1+json' };
    const put = await sluice.fetch('/v2/team/app/manifests/1', {
      method: 'PUT',
      headers: { ...headers, ...type },
      body: manifest,
    });
    assert.equal(put.status, 201, await put.text());
    const digest = put.headers.get('docker-content-digest') ?? '';
    const remove = { method: 'DELETE', headers };
    assert.equal((await sluice.fetch(`/v2/team/app/manifests/${digest}`, remove)).status, 202);
    const request = await sluice.request({ containerImage: upstreams.relay.image('a/b').name });
    const path = `/container-token/${request.containerToken}`;
    assert.equal((await sluice.fetch(path, remove)).status, 200);
    const response = await sluice.fetch('/platform/audit', { headers });
    const { entries } = (await response.json()) as { entries: Entry[] };
    assert.deepEqual(
      entries.map(({ actor, action }) => [actor, action]),
      ['request.end', 'manifest.delete', 'manifest.push'].map(action => ['account admin', action]),
    );
    assert.equal(entries[1]?.target, `team/app ${digest}`);
    assert.equal(entries[2]?.target, `team/app:1 ${digest}`);
    assert.match(entries[0]?.target ?? '', /^[0-9a-f]{12} of .*\/a\/b:latest$/);
    assert.ok(!JSON.stringify(entries).includes(request.containerToken));
    await newAccessToken(sluice, { name: 'admin', password: 'secret' }, 'ada@example.org');
  });

  test('deletes old and surplus entries in small steps', async () => {
    await using directory = await makeTempDir('audit');
    const database = openDatabase(directory.join('sluice.db'));
    const errors: unknown[] = [];
    const audit = createAuditLog(database, error => errors.push(error));
    for (let number = 0; number < 5000; number += 1) {
      audit.add({ actor: 'account admin', action: 'user.add', target: `user ${number}` });
    }
    await audit.flush();
    const targets = async () => (await audit.list({ limit: 10_000 })).map(({ target }) => target);
    await audit.purge(0, 3000);
    assert.equal((await targets()).length, 3000);
    assert.equal((await targets())[0], 'user 4999');
    assert.equal((await targets()).at(-1), 'user 2000');
    await audit.purge(Date.now() + 1000, 3000);
    assert.deepEqual(await targets(), []);
    assert.deepEqual(errors, []);
    database.close();
    audit.add({ actor: 'a', action: 'b', target: 'c'.repeat(10_000) });
    await audit.flush();
    assert.equal(errors.length, 1, 'a failure is reported and not thrown');
  });
});
