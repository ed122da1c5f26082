/** E-mails, with a real SMTP server. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import type { AddressInfo } from 'node:net';
import { type TestContext, test } from 'node:test';
import { SMTPServer, type SMTPServerOptions } from 'smtp-server';
import { createMailDelivery } from '../../src/messages/index.ts';
import { isMailAddress } from '../../src/messages/site-event.ts';
import { makeCertificates } from '../world/certificates.ts';
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
    ...{ createdAt: 0, attempts: 0, deadAt: null, error: null, body: JSON.stringify(body) },
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
