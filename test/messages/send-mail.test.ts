/** E-mails, with a real SMTP server. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { type TestContext, test } from 'node:test';
import { SMTPServer, type SMTPServerOptions } from 'smtp-server';
import { createMailDelivery } from '../../src/messages/index.ts';
import {
  createAnnounce,
  eventKinds,
  isMailAddress,
  mailsPerDay,
} from '../../src/messages/site-event.ts';
import { makeCertificates } from '../world/certificates.ts';
import { eventually } from '../world/eventually.ts';
import { makeTempDir } from '../world/temp-dir.ts';

async function startMail(t: TestContext, options: SMTPServerOptions = {}) {
  const texts: string[] = [];
  const server = new SMTPServer({
    ...{ authOptional: true, disabledCommands: ['STARTTLS'], logger: false },
    onData(stream, _, callback) {
      const chunks: Buffer[] = [];
      stream.on('data', chunk => chunks.push(chunk));
      stream.on('end', () => {
        texts.push(Buffer.concat(chunks).toString());
        callback();
      });
    },
    ...options,
  });
  server.on('error', () => {});
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve));
  t.after(() => new Promise<void>(resolve => server.close(() => resolve())));
  const { port } = server.server.address() as AddressInfo;
  return { texts, url: new URL(`smtp://127.0.0.1:${port}`) };
}

const settings = {
  ...{ username: undefined, password: undefined, from: 'sluice@example.org' },
  ca: undefined,
  ...{ requireTls: false, allowPrivateAddress: true },
};

function messageTo(to: string, more: object = {}) {
  const body = {
    ...{ id: 'abc_1', image: 'sluice.test/builds:abc', succeeded: false, duration: 200, to },
    ...{ created: '', ended: '', page: 'https://sluice.test/view/builds/abc_1', ...more },
  };
  return {
    ...{ id: 1, event: 'e1', target: 'e-mail', kind: 'build.ended', subject: 'abc_1' },
    ...{
      sender: '7',
      createdAt: 0,
      attempts: 0,
      deadAt: null,
      error: null,
      body: JSON.stringify(body),
    },
  };
}

test('line breaks and markup in names and reasons stay text', async t => {
  const { texts, url } = await startMail(t);
  const { send } = createMailDelivery({ ...settings, server: url }, 5000);
  const id = 'abc_1\r\nBcc: eve@example.org\r\n\r\n<script>';
  const image = 'sluice.test/builds:abc\r\nX-Evil: yes';
  await send(messageTo('ada@example.org', { id, image, reason: 'one\n.\ntwo\u001b[31m <b>' }));
  const [text = ''] = texts;
  const [head = '', ...rest] = text.split('\r\n\r\n');
  assert.doesNotMatch(head, /^(?:bcc|x-evil)/im);
  assert.match(head, /^Content-Type: text\/plain/m);
  assert.match(head, /^To: ada@example.org$/m);
  assert.doesNotMatch(rest.join('\n'), /^X-Evil/m);
  assert.match(rest.join('\n'), /two\?\[31m <b>/);
});

test('an address that is not one plain address gets no e-mail', async t => {
  const { texts, url } = await startMail(t);
  const { send } = createMailDelivery({ ...settings, server: url }, 5000);
  for (const to of [
    ...['ada@example.org\r\nBcc: eve@example.org', 'ada@example.org, eve@example.org'],
    ...[
      'Ada <ada@example.org>',
      'ada',
      '',
      `${'a'.repeat(300)}@example.org`,
      'a@b@c',
      'a@b\u2028c',
      '-oX@b.example',
      '|sh@b.example',
      'a%c.example@b.example',
      'a..b@c.example',
      'root@localhost',
    ],
  ]) {
    assert.equal(isMailAddress(to), false, to);
    await assert.rejects(send(messageTo(to)), { blame: 'never' });
  }
  assert.deepEqual(texts, []);
  assert.equal(isMailAddress('ada.b+c@mail.example.org'), true);
});

test('a refused recipient is final; a server that hangs, has no TLS or a closed address is not', async t => {
  const refusing = await startMail(t, {
    onRcptTo: (_, __, callback) =>
      callback(Object.assign(new Error('no such user'), { responseCode: 550 })),
  });
  const message = messageTo('ada@example.org');
  const deliver = (more: Partial<Parameters<typeof createMailDelivery>[0]>, timeoutMs = 5000) =>
    createMailDelivery({ ...settings, server: refusing.url, ...more }, timeoutMs).send(message);
  await assert.rejects(deliver({}), { blame: 'never', message: 'The mail server answered 550' });
  await assert.rejects(deliver({ requireTls: true }), { blame: 'receiver' });
  await assert.rejects(deliver({ allowPrivateAddress: false }), {
    blame: 'receiver',
    message: /closed one: set messages.mail.allowPrivateAddress/,
  });
  const hanging = await startMail(t, { onConnect: () => {} });
  await assert.rejects(deliver({ server: hanging.url }, 200), { blame: 'receiver' });
  assert.deepEqual(refusing.texts, []);
});

test('a certificate of the own authority is checked before the password is sent', async t => {
  await using directory = await makeTempDir('mail-tls');
  const { authority, certificate, key } = await makeCertificates(directory.join('tls'));
  const logins: (string | undefined)[] = [];
  const { texts, url } = await startMail(t, {
    ...{ cert: await readFile(certificate), key: await readFile(key) },
    ...{ disabledCommands: [], authOptional: false },
    onAuth({ password }, _, callback) {
      logins.push(password ?? undefined);
      callback(null, { user: 'sluice' });
    },
  });
  const login = { username: 'sluice', password: 'word', requireTls: true, server: url };
  const message = messageTo('ada@example.org');
  const deliver = (ca: string | undefined) =>
    createMailDelivery({ ...settings, ...login, ca }, 5000).send(message);
  await assert.rejects(deliver(undefined), { blame: 'receiver' });
  assert.deepEqual(logins, []);
  await deliver(await readFile(authority, 'utf8'));
  assert.deepEqual(logins, ['word']);
  assert.equal(texts.length, 1);
});

test('an address gets a limited number of e-mails a day, and no half of a character is in a subject', () => {
  const clock = { now: 0 };
  const announce = createAnnounce({
    ...{ webhooks: [{ name: 'ci', events: eventKinds }], mailAfterMs: 0, host: 'sluice.test' },
    ...{ pageOf: id => `https://sluice.test/view/builds/${id}`, now: () => clock.now },
  });
  const mails = (mailTo: string) =>
    announce({
      ...{ kind: 'build.ended', id: 'abc_1', image: 'sluice.test/builds:abc', succeeded: true },
      owner: '7',
      ...{ createdAt: 0, endedAt: 1000, mailTo },
    }).filter(({ target }) => target === 'e-mail').length;
  const sent = Array.from({ length: mailsPerDay + 20 }, (_, at) =>
    mails(at % 2 === 0 ? 'ada@example.org' : 'Ada@example.org'),
  );
  assert.equal(
    sent.reduce((sum, one) => sum + one, 0),
    mailsPerDay,
  );
  assert.equal(mails('bob@example.org'), 1);
  clock.now = 86_400_000;
  assert.equal(mails('ada@example.org'), 1);
  const [message] = announce({
    kind: 'image.deleted',
    repository: 'a',
    tag: `${'x'.repeat(397)}😀`,
  });
  assert.ok(message?.subject.isWellFormed());
});

test('a mail server that hangs leaves no connection, and a closed delivery opens none', async t => {
  const open = new Set<Socket>();
  const hanging = createServer(socket => {
    open.add(socket);
    socket.on('error', () => {}).on('close', () => open.delete(socket));
    socket.resume();
  });
  await new Promise<void>(resolve => hanging.listen(0, '127.0.0.1', resolve));
  t.after(() => new Promise(resolve => hanging.close(resolve)));
  const server = new URL(`smtp://127.0.0.1:${(hanging.address() as AddressInfo).port}`);
  const delivery = createMailDelivery({ ...settings, server }, 100);
  for (let attempt = 0; attempt < 3; attempt += 1) {
    await assert.rejects(delivery.send(messageTo('ada@example.org')), { blame: 'receiver' });
  }
  await eventually('all connections are closed', () => open.size === 0);
  let connections = 0;
  hanging.on('connection', () => {
    connections += 1;
  });
  await delivery.close();
  await assert.rejects(delivery.send(messageTo('ada@example.org')), { blame: 'receiver' });
  assert.equal(connections, 0);
});
