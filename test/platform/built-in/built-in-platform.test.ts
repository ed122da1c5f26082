import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { Fault, type FaultKind } from '../../../src/foundation/fault.ts';
import type { CredentialKeys } from '../../../src/platform/workflow-platform.ts';
import { login, makePlatform, page } from './world.ts';

const kind = (wanted: FaultKind) => (error: unknown) =>
  error instanceof Fault && error.kind === wanted;

suite('users and tokens', () => {
  test('a token identifies its user; its value is shown once and is not in the database', async () => {
    const { platform, database, makeUser } = makePlatform();
    const { user, grant } = await makeUser('Ada@Example.org');
    assert.match(grant.accessToken, /^sluice_[0-9a-f]{40}$/);
    assert.deepEqual(await platform.user(grant), {
      id: String(user.id),
      userName: 'ada',
      email: 'ada@example.org',
    });
    const bytes = database.serialize();
    assert.ok(bytes.includes('ada@example.org'));
    assert.equal(bytes.includes(grant.accessToken), false);
    assert.equal(bytes.includes(grant.accessToken.slice('sluice_'.length)), false);
    assert.equal(bytes.includes(Buffer.from(grant.accessToken.slice(7), 'hex')), false);
  });

  test('a wrong, revoked or expired token, and one of a removed user, are refused', async () => {
    const { platform, clock, makeUser } = makePlatform();
    const { user, token, grant } = await makeUser('ada@example.org');
    const other = await makeUser('bob@example.org');
    for (const accessToken of ['', 'sluice_', `${grant.accessToken}0`, 'eyJ0aWQiOjF9']) {
      await assert.rejects(platform.user({ ...grant, accessToken }), kind('denied'));
    }
    const expiresAt = clock.now + 1000;
    const short = await platform.tokens.create({ user: user.id, name: 'short', expiresAt });
    const shortGrant = { ...grant, accessToken: short.value };
    await platform.user(shortGrant);
    clock.now += 1000;
    await assert.rejects(platform.user(shortGrant), kind('denied'));
    await assert.rejects(platform.credentials(shortGrant), kind('denied'));
    await assert.rejects(platform.keys(shortGrant, 'x'), kind('denied'));

    await assert.rejects(() => platform.tokens.revoke(token.id, other.user.id), kind('not-found'));
    await platform.user(grant);
    await platform.tokens.revoke(token.id, user.id);
    await assert.rejects(platform.user(grant), kind('denied'));
    await assert.rejects(() => platform.tokens.revoke(token.id), kind('not-found'));

    await platform.users.remove(other.user.id);
    await assert.rejects(platform.user(other.grant), kind('denied'));
  });

  test('a token expires at a whole number of ms', async () => {
    const { platform, clock, makeUser } = makePlatform();
    const { user } = await makeUser('ada@example.org');
    for (const expiresAt of [clock.now + 1000.5, Number.POSITIVE_INFINITY, Number.NaN]) {
      const create = () =>
        platform.tokens.create({ user: user.id, name: 'odd', expiresAt: expiresAt });
      await assert.rejects(create, kind('bad-request'), `${expiresAt}`);
    }
  });

  test('a token ends before the year 10000', async () => {
    const { platform, makeUser } = makePlatform();
    const { user } = await makeUser('ada@example.org');
    const expiresAt = Date.UTC(9999, 11, 31);
    const { token } = await platform.tokens.create({ user: user.id, name: 'last', expiresAt });
    assert.equal(token.expiresAt, expiresAt);
    const later = { user: user.id, name: 'later', expiresAt: expiresAt + 1 };
    await assert.rejects(platform.tokens.create(later), kind('bad-request'));
  });

  test('a token does not outlive the token that creates it', async () => {
    const { platform, clock, makeUser } = makePlatform();
    const { user } = await makeUser('ada@example.org');
    const until = clock.now + 1000;
    const create = async (name: string, expiresAt?: number) => {
      const wanted = { user: user.id, name, expiresAt };
      return (await platform.tokens.create(wanted, { until })).token.expiresAt;
    };
    assert.equal(await create('earlier', until - 1), until - 1);
    assert.equal(await create('equal', until), until);
    assert.equal(await create('unspecified'), until);
    await assert.rejects(create('later', until + 1), kind('denied'));
    assert.equal((await platform.tokens.list(user.id, page)).total, 4, 'the later one is not kept');
  });

  test('a token keeps its limits, and the administrator who created it', async () => {
    const { platform, makeUser } = makePlatform();
    const { user, token: unlimited } = await makeUser('ada@example.org');
    assert.deepEqual(
      [unlimited.rights, unlimited.creator, unlimited.expiresAt],
      [undefined, null, null],
    );
    const { value, token } = await platform.tokens.create({
      user: user.id,
      name: 'limited',
      scopes: ['request', 'pull'],
      repositories: ['team/*'],
      creator: 'root',
    });
    const { holder, ...used } = await platform.tokens.use(value);
    assert.equal(holder.email, 'ada@example.org');
    const { entries } = await platform.tokens.list(user.id, page);
    for (const shown of [token, used, entries.find(({ id }) => id === token.id)]) {
      assert.deepEqual(shown?.rights, { scopes: ['pull', 'request'], repositories: ['team/*'] });
      assert.equal(shown?.creator, 'root');
    }
  });

  test("the day of a token's last use is recorded, with one write a day", async () => {
    const { platform, database, clock, makeUser } = makePlatform();
    const { user, grant } = await makeUser('ada@example.org');
    const usedDay = async () => (await platform.tokens.list(user.id, page)).entries[0]?.usedDay;
    const changes = () => Number(database.prepare('SELECT total_changes()').pluck().get());
    assert.equal(await usedDay(), null);
    await platform.user(grant);
    assert.equal(await usedDay(), '2026-01-01');
    const before = changes();
    for (let call = 0; call < 100; call += 1) await platform.credentials(grant);
    assert.equal(changes(), before);
    clock.now += 12 * 3_600_000;
    await platform.user(grant);
    assert.equal(await usedDay(), '2026-01-02');
    assert.equal(changes(), before + 1);
  });

  test('expired tokens are listed for a month, and do not count afterwards', async () => {
    const { platform, clock, makeUser } = makePlatform();
    const { user } = await makeUser('ada@example.org');
    const day = 24 * 3_600_000;
    // As a pipeline does that makes one for each run; the first token of the user does not end.
    for (let run = 0; run < 400; run += 1) {
      const expiresAt = clock.now + day;
      await platform.tokens.create({ user: user.id, name: `run ${run}`, expiresAt });
      clock.now += day;
      await platform.tokens.purge();
    }
    const { entries, total } = await platform.tokens.list(user.id, page);
    assert.deepEqual([entries[0]?.name, entries.at(-1)?.name], ['test', 'run 399']);
    assert.ok(total >= 30 && total <= 33, String(total));
  });

  test('an expired token is listed for exactly 30 days', async () => {
    const { platform, clock, makeUser } = makePlatform();
    const { user } = await makeUser('ada@example.org');
    const expiresAt = clock.now + 1000;
    await platform.tokens.create({ user: user.id, name: 'short', expiresAt });
    const listedAt = async (time: number) => {
      clock.now = time;
      await platform.tokens.purge();
      return (await platform.tokens.list(user.id, page)).entries.map(({ name }) => name);
    };
    const end = expiresAt + 30 * 24 * 3_600_000;
    assert.deepEqual(await listedAt(end), ['test', 'short']);
    assert.deepEqual(await listedAt(end + 1), ['test']);
  });

  test('a token is accepted even if its use cannot be recorded', async () => {
    const { platform, database, makeUser } = makePlatform();
    const { grant } = await makeUser('ada@example.org');
    database.pragma('query_only = true');
    assert.equal((await platform.user(grant)).userName, 'ada');
  });

  test('addresses and names are validated, and unique', async () => {
    const { platform, clock, makeUser } = makePlatform();
    const { user } = await makeUser('ada@example.org');
    for (const email of ['', 'ada', 'a@b c', '@b.org', 'a@', 'a@b..c', 'a\n@b.org', 'a@b@c']) {
      await assert.rejects(() => platform.users.add(email), kind('bad-request'), email);
    }
    await assert.rejects(() => platform.users.add(' ADA@example.ORG '), kind('in-use'));
    const longest = 'x'.repeat(100);
    const { token } = await platform.tokens.create({ user: user.id, name: ` ${longest} ` });
    assert.equal(token.name, longest);
    for (const name of ['', '  ', 'a\u0000b', 'x'.repeat(101)]) {
      await assert.rejects(
        () => platform.tokens.create({ user: user.id, name }),
        kind('bad-request'),
        name,
      );
    }
    await assert.rejects(
      () => platform.tokens.create({ user: user.id, name: 'test' }),
      kind('in-use'),
    );
    for (const end of [clock.now, Date.UTC(10_000, 0, 1), Number.NaN]) {
      await assert.rejects(
        () => platform.tokens.create({ user: user.id, name: 'end', expiresAt: end }),
        kind('bad-request'),
      );
    }
    for (const name of ['', '-a', 'a b', 'a/b', 'x'.repeat(64)]) {
      await assert.rejects(() => platform.workspaces.add(name), kind('bad-request'), name);
    }
    await platform.workspaces.add('Genomics');
    await assert.rejects(() => platform.workspaces.add('genomics'), kind('in-use'));
  });

  test('the id of a removed user or workspace is never reused', async () => {
    const { platform, makeUser } = makePlatform();
    const { user } = await makeUser('ada@example.org');
    const workspace = await platform.workspaces.add('one');
    await platform.users.remove(user.id);
    await platform.workspaces.remove(workspace.id);
    assert.ok((await platform.users.add('ada@example.org')).id > user.id);
    assert.ok((await platform.workspaces.add('one')).id > workspace.id);
  });

  test('lists come in pages', async () => {
    const { platform } = makePlatform();
    for (let number = 0; number < 25; number += 1) {
      await platform.users.add(`user${String(number).padStart(2, '0')}@example.org`);
    }
    const { entries, total } = await platform.users.list(undefined, { limit: 10, offset: 20 });
    assert.equal(total, 25);
    assert.deepEqual(
      entries.map(({ userName }) => userName),
      ['user20', 'user21', 'user22', 'user23', 'user24'],
    );
    assert.equal(
      (await platform.users.list('USER07@example.org', page)).entries[0]?.userName,
      'user07',
    );
    assert.deepEqual(await platform.users.list('nobody@example.org', page), {
      entries: [],
      total: 0,
    });
  });
});

suite('credentials', () => {
  const everyKind: readonly CredentialKeys[] = [
    { ...login, registry: 'quay.io/team' },
    {
      kind: 'aws',
      accessKey: 'AKIA1',
      secretKey: 's3cret',
      assumeRoleArn: 'arn:aws:iam::1:role/r',
      externalId: 'external-id-1',
    },
    { kind: 'google', data: '{\n"type":"service_account"}' },
    { kind: 'azure', clientId: 'c1', clientSecret: 's3cret' },
    { kind: 'github', username: 'ada', password: 's3cret' },
    { kind: 'gitlab', username: 'ada', password: 's3cret' },
  ];

  test('stored credentials of every kind are returned unchanged; lists contain no secrets', async () => {
    const { platform, database, makeUser } = makePlatform();
    const { user, grant } = await makeUser('ada@example.org');
    for (const keys of everyKind) {
      const owner = { kind: 'user', id: user.id } as const;
      const { id } = await platform.vault.add({ owner, name: keys.kind, keys });
      assert.deepEqual(await platform.keys(grant, id), keys);
    }
    const listed = await platform.credentials(grant);
    const registries: Readonly<Record<string, string>> = {
      'container-reg': 'quay.io/team',
      github: 'ghcr.io',
      gitlab: 'registry.gitlab.com',
    };
    assert.deepEqual(
      listed.map(({ name, provider, registry }) => ({ name, provider, registry })),
      everyKind.map(keys => ({
        name: keys.kind,
        provider: keys.kind,
        registry: registries[keys.kind],
      })),
    );
    const shown = JSON.stringify(await platform.vault.list(undefined, page));
    for (const secret of ['s3cret', 'service_account', 'external-id-1']) {
      assert.equal(shown.includes(secret), false, secret);
      assert.equal(database.serialize().includes(secret), false, secret);
    }
    assert.ok(shown.includes('AKIA1') && shown.includes('ada'));
  });

  test('a registry has one spelling, and its path is kept', async () => {
    const { platform, makeUser } = makePlatform();
    const owner = { kind: 'user', id: (await makeUser('ada@example.org')).user.id } as const;
    const spelled = async (registry: string | undefined, name: string) =>
      (await platform.vault.add({ owner, name, keys: { ...login, registry } })).shown.registry;
    const cases: readonly [string | undefined, string][] = [
      [undefined, 'docker.io'],
      ['docker.io', 'docker.io'],
      ['https://index.docker.io/v1/', 'docker.io'],
      ['registry-1.docker.io/team', 'docker.io/team'],
      ['https://Quay.io/', 'quay.io'],
      ['ghcr.io/team', 'ghcr.io/team'],
      ['localhost:5000/a/b', 'localhost:5000/a/b'],
      ['127.0.0.1:5000', '127.0.0.1:5000'],
      ['https://registry.example.com:8443/v2/', 'registry.example.com:8443'],
      ['[::1]:5000/a', '[::1]:5000/a'],
    ];
    for (const [at, [given, wanted]] of cases.entries()) {
      assert.equal(await spelled(given, String(at)), wanted, given);
    }
    for (const wrong of [
      '',
      'team',
      'quay.io/Team',
      'quay.io/a:tag',
      'a b.io',
      'quay.io@x',
      '/a',
      'ftp://quay.io',
    ]) {
      await assert.rejects(spelled(wrong, wrong), kind('bad-request'), wrong);
    }
  });

  test('accounts of git hosts and clouds apply to the registry in their entry', async () => {
    const { platform, makeUser } = makePlatform();
    const { user, grant } = await makeUser('ada@example.org');
    const owner = { kind: 'user', id: user.id } as const;
    const account = { username: 'ada', password: 's3cret' };
    for (const [keys, given, registry] of [
      [{ kind: 'gitea', ...account }, 'https://Gitea.example.org/lab/', 'gitea.example.org/lab'],
      [{ kind: 'gitlab', ...account }, 'registry.lab.example', 'registry.lab.example'],
      [{ kind: 'google', data: '{}' }, 'europe-docker.pkg.dev/a', 'europe-docker.pkg.dev/a'],
    ] as const) {
      const { id, name } = await platform.vault.add({ owner, keys, registry: given });
      assert.equal(name, registry);
      assert.deepEqual(await platform.keys(grant, id), keys);
      const entries = await platform.credentials(grant);
      assert.equal(entries.find(entry => entry.id === id)?.registry, registry);
    }
  });

  test('unusable keys are refused, and the message does not repeat them', async () => {
    const { platform, makeUser } = makePlatform();
    const owner = { kind: 'user', id: (await makeUser('ada@example.org')).user.id } as const;
    const aws = {
      kind: 'aws',
      accessKey: 'A',
      secretKey: undefined,
      assumeRoleArn: undefined,
      externalId: undefined,
    } as const;
    const registry = 'quay.io';
    const wrong: readonly CredentialKeys[] = [
      { ...login, registry, username: '' },
      { ...login, registry, password: '' },
      { ...login, registry, username: 'a:b' },
      { ...login, registry, password: 's3cret\n' },
      { ...login, registry, password: 's3cret'.repeat(10_000) },
      aws,
      { ...aws, accessKey: undefined },
      { ...aws, accessKey: undefined, assumeRoleArn: 'arn', secretKey: 's3cret' },
      { kind: 'google', data: '' },
      { kind: 'azure', clientId: 'c', clientSecret: '' },
      // Every list reads the members that are not secret.
      { ...login, registry, username: 'a'.repeat(301) },
      { kind: 'github', username: 'a'.repeat(301), password: 's3cret' },
      { ...aws, accessKey: 'A'.repeat(301), secretKey: 's3cret' },
      { ...aws, accessKey: undefined, assumeRoleArn: 'a'.repeat(2049) },
      { kind: 'azure', clientId: 'c'.repeat(301), clientSecret: 's3cret' },
      { kind: 'other', discriminator: 'ssh' },
      { kind: 'gitea', username: 'ada', password: 's3cret' },
      { kind: 'bitbucket', username: 'ada', password: 's3cret' },
    ];
    for (const keys of wrong) {
      await assert.rejects(
        () => platform.vault.add({ owner, keys }),
        error => kind('bad-request')(error) && !String(error).includes('s3cret'),
        JSON.stringify(keys),
      );
    }
    const longest = { accessKey: undefined, assumeRoleArn: 'a'.repeat(2048) };
    await platform.vault.add({ owner, keys: { ...aws, ...longest } });
    await platform.vault.add({ owner, keys: { ...login, registry } });
    await assert.rejects(
      () => platform.vault.add({ owner, keys: { ...login, registry } }),
      kind('in-use'),
    );
  });

  test('personal credentials are for their user, those of a workspace for its members', async () => {
    const { platform, makeUser } = makePlatform();
    const [ada, bob] = [await makeUser('ada@example.org'), await makeUser('bob@example.org')];
    const workspace = await platform.workspaces.add('genomics');
    await platform.workspaces.addMember(workspace.id, ada.user.id);
    const keys = { ...login, registry: 'quay.io' };
    const own = await platform.vault.add({ owner: { kind: 'user', id: ada.user.id }, keys });
    const shared = await platform.vault.add({
      owner: { kind: 'workspace', id: workspace.id },
      keys,
    });
    const number = String(workspace.id);

    assert.deepEqual(
      (await platform.credentials(ada.grant)).map(({ id }) => id),
      [own.id],
    );
    assert.deepEqual(
      (await platform.credentials(ada.grant, number)).map(({ id }) => id),
      [shared.id],
    );
    assert.deepEqual(await platform.keys(ada.grant, own.id), keys);
    assert.deepEqual(await platform.keys(ada.grant, shared.id, number), keys);
    await assert.rejects(platform.keys(ada.grant, shared.id), kind('not-found'));
    await assert.rejects(platform.keys(ada.grant, own.id, number), kind('not-found'));

    assert.deepEqual(await platform.credentials(bob.grant), []);
    for (const id of [own.id, shared.id, 'none']) {
      await assert.rejects(platform.keys(bob.grant, id), kind('not-found'));
      await assert.rejects(platform.keys(bob.grant, id, number), kind('denied'));
    }
    const told = await Promise.all(
      [number, '999'].map(id => platform.credentials(bob.grant, id).catch(String)),
    );
    assert.equal(
      told[0],
      String(told[1]).replace('999', number),
      'there or not makes no difference',
    );
    await assert.rejects(platform.credentials(ada.grant, '1x'), kind('bad-request'));

    await platform.workspaces.removeMember(workspace.id, ada.user.id);
    await assert.rejects(platform.keys(ada.grant, shared.id, number), kind('denied'));
  });

  test('credentials are removed with their owner', async () => {
    const { platform, makeUser } = makePlatform();
    const { user } = await makeUser('ada@example.org');
    const workspace = await platform.workspaces.add('genomics');
    await platform.workspaces.addMember(workspace.id, user.id);
    const keys = { ...login, registry: 'quay.io' };
    const own = await platform.vault.add({ owner: { kind: 'user', id: user.id }, keys });
    const shared = await platform.vault.add({
      owner: { kind: 'workspace', id: workspace.id },
      keys,
    });
    await platform.users.remove(user.id);
    await assert.rejects(() => platform.vault.keys(own.id), kind('not-found'));
    assert.deepEqual(await platform.vault.keys(shared.id), keys);
    assert.equal((await platform.workspaces.members(workspace.id, page)).total, 0);
    assert.equal((await platform.tokens.list(undefined, page)).total, 0);
    await platform.workspaces.remove(workspace.id);
    assert.equal((await platform.vault.list(undefined, page)).total, 0);
  });

  test('a secret that was moved to another owner in the database cannot be opened', async () => {
    const { platform, database, makeUser } = makePlatform();
    const [ada, bob] = [await makeUser('ada@example.org'), await makeUser('bob@example.org')];
    const keys = { ...login, registry: 'quay.io' };
    const { id } = await platform.vault.add({ owner: { kind: 'user', id: ada.user.id }, keys });
    database.prepare('UPDATE credentials SET user = ? WHERE id = ?').run(bob.user.id, id);
    await assert.rejects(() => platform.vault.keys(id), /cannot be read/);
  });

  test('nobody can fill the disk with tokens or credentials', async () => {
    const { platform, makeUser } = makePlatform();
    const { user } = await makeUser('ada@example.org');
    const owner = { kind: 'user', id: user.id } as const;
    const fill = async (most: number, add: (name: string) => Promise<unknown>) => {
      for (let number = 0; number < most; number += 1) await add(`n${number}`);
      await assert.rejects(() => add('one more'), kind('in-use'));
    };
    await fill(199, name => platform.tokens.create({ user: user.id, name }));
    await fill(500, name =>
      platform.vault.add({ owner, name, keys: { ...login, registry: 'a.io' } }),
    );
  });
});
