import { once } from 'node:events';
import { connect as connectTcp, isIP, type Socket } from 'node:net';
import { getCACertificates } from 'node:tls';
import { terminalLine } from '../foundation/text.ts';
import { lookupIn, publicAddressOf } from '../upstream/transport/index.ts';
import { type Delivery, NotDelivered, receiverNames } from './send-webhook.ts';
import { type BuildData, isMailAddress, mailTarget } from './site-event.ts';

/** How e-mails are sent. */
export interface MailSettings {
  /** `smtp://host:port`, or `smtps://` for TLS from the first byte. */
  readonly server: URL;
  readonly username: string | undefined;
  readonly password: string | undefined;
  /** Address of the sender. */
  readonly from: string;
  /** PEM text of certificate authorities, in addition to the public ones. */
  readonly ca: string | undefined;
  /** False to send without TLS where the server does not offer it. */
  readonly requireTls: boolean;
  readonly allowPrivateAddress: boolean;
}

const submissionPort = 587;
const smtpsPort = 465;

export function createMailDelivery(
  { server, username, password, from, ca, requireTls, allowPrivateAddress }: MailSettings,
  timeoutMs: number,
): Delivery {
  const isSecure = server.protocol === 'smtps:';
  const hostname = server.hostname.replace(/[[\]]/g, '');

  /** Connections in use: the client itself leaves one open when it gives up a message. */
  const open = new Set<Socket>();
  let isClosed = false;
  const connect = async (host: string): Promise<Socket> => {
    // A lookup of the name may end after the stop.
    if (isClosed) throw new Error('closed');
    const port = Number(server.port) || (isSecure ? smtpsPort : submissionPort);
    const socket = connectTcp({ port, host, lookup: lookupIn(receiverNames) });
    open.add(socket);
    socket.once('close', () => open.delete(socket));
    try {
      await once(socket, 'connect', { signal: AbortSignal.timeout(timeoutMs) });
      return socket;
    } catch (error) {
      socket.destroy();
      throw error;
    }
  };

  const prepare = async () => {
    const [{ createTransport }, host] = await Promise.all([
      // Most servers send no e-mails, and never load this client.
      import('nodemailer'),
      allowPrivateAddress ? hostname : publicAddressOf(server, receiverNames),
    ]);
    return createTransport({
      host,
      getSocket: (_, done) => {
        connect(host).then(
          connection => done(null, { connection }),
          error => done(error, undefined),
        );
      },
      secure: isSecure,
      requireTLS: requireTls && !isSecure,
      // The certificate is that of the name, which was resolved above.
      tls: {
        ...(isIP(hostname) === 0 ? { servername: hostname } : {}),
        ...(ca === undefined ? {} : { ca: [...getCACertificates('default'), ca] }),
      },
      ...(username === undefined ? {} : { auth: { user: username, pass: password ?? '' } }),
      connectionTimeout: timeoutMs,
      greetingTimeout: timeoutMs,
      socketTimeout: timeoutMs,
      dnsTimeout: timeoutMs,
      disableFileAccess: true,
      disableUrlAccess: true,
    });
  };

  const endAll = () => {
    for (const socket of open) socket.destroy();
  };

  return {
    name: mailTarget,

    async send({ event, body }) {
      const { to, ...build } = JSON.parse(body) as BuildData & { readonly to: string };
      if (!isMailAddress(to)) {
        throw new NotDelivered('The platform gave the caller no valid e-mail address', 'never');
      }
      const transporter = await prepare().catch(cause => {
        throw new NotDelivered(
          'The mail server has no address, or a loopback, private or otherwise closed one: set messages.mail.allowPrivateAddress for it',
          'receiver',
          { cause },
        );
      });
      const timer = Promise.withResolvers<never>();
      const limit = setTimeout(
        () => timer.reject(new NotDelivered('The mail server did not answer in time')),
        2 * timeoutMs,
      );
      try {
        const sending = transporter.sendMail({
          from,
          to,
          subject: subjectOf(build),
          text: textOf(build),
          messageId: `<${event}@${from.slice(from.indexOf('@') + 1)}>`,
          headers: { 'Auto-Submitted': 'auto-generated' },
        });
        await Promise.race([sending, timer.promise]);
      } catch (cause) {
        throw cause instanceof NotDelivered ? cause : refusalOf(cause);
      } finally {
        clearTimeout(limit);
        transporter.close();
        endAll();
      }
    },

    async close() {
      isClosed = true;
      endAll();
    },
  };
}

function refusalOf(cause: unknown): NotDelivered {
  const { responseCode, code, command } = cause as {
    responseCode?: number;
    code?: string;
    command?: string;
  };
  if (responseCode === undefined) {
    return new NotDelivered(
      `The mail server cannot be used${code ? ` (${code})` : ''}`,
      'receiver',
      {
        cause,
      },
    );
  }
  // All else is between the operator and the server, such as a wrong password: it may be right at the next attempt.
  const isOfRecipient = command === 'RCPT TO';
  const blame = isOfRecipient ? (responseCode >= 550 ? 'never' : 'message') : 'receiver';
  return new NotDelivered(`The mail server answered ${responseCode}`, blame, { cause });
}

function subjectOf({ succeeded, id }: BuildData): string {
  return terminalLine(`Container build ${id} ${succeeded ? 'succeeded' : 'failed'}`);
}

/** Plain text: names and reasons that contain markup are only shown. */
function textOf({ id, image, succeeded, digest, reason, duration, page }: BuildData): string {
  const lines = [
    `The build ${id} ${succeeded ? 'succeeded' : 'failed'} after ${Math.round(duration)} seconds.`,
    '',
    `Image: ${image}`,
    ...(digest === undefined ? [] : [`Digest: ${digest}`]),
    `Details and log: ${page}`,
    ...(reason === undefined ? [] : ['', ...reason.split('\n')]),
  ];
  return `${lines.map(terminalLine).join('\n')}\n`;
}
