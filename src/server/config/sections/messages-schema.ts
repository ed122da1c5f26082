import { z } from 'zod';
import { eventKinds, isMailAddress, mailTarget } from '../../../messages/site-event.ts';
import { count, duration, flag, list, timer } from '../units.ts';

const kind = z.enum(eventKinds, `expected one of ${eventKinds.join(', ')}`);

// The server waits for it when it stops.
const longestTimeoutMs = 300_000;

const imageKinds = eventKinds.filter(name => name.startsWith('image.'));

/** The settings of one webhook, as they are written. */
export const webhook = z.strictObject({
  address: z
    .url({ protocol: /^https?$/, error: 'expected an http(s) URL' })
    .refine(
      text => !/^https?:\/\/[^/]*@/.test(text),
      'expected a URL without a password: write it as authorization',
    )
    .describe('URL of the receiver, which gets each message by POST')
    .meta({ secret: true }),
  form: z
    .enum(['cloudevents', 'distribution'])
    .default('cloudevents')
    .describe(
      'Form of the messages. `cloudevents`: CloudEvents 1.0, structured JSON. `distribution`: the notifications of the distribution registry, for pushes and deletions only',
    ),
  events: list
    .pipe(z.array(kind))
    .optional()
    .describe(
      'Kinds of events: `build.ended`, `mirror.ended`, `image.pushed`, `image.deleted`. Default: all that the form has',
    ),
  secret: z
    .string()
    .min(16, 'expected at least 16 characters')
    .refine(
      text => !text.startsWith('whsec_') || /^whsec_[A-Za-z0-9+/]{32,}={0,2}$/.test(text),
      'expected base64 of at least 24 bytes after whsec_',
    )
    .optional()
    .describe(
      'Secret that signs each message with HMAC-SHA256, as Standard Webhooks 1.0 defines it: `whsec_` and base64, or any text. Default: no signature',
    )
    .meta({ secret: true }),
  authorization: z
    .string()
    .regex(/^[\x20-\x7e]+$/, 'expected the value of a header')
    .optional()
    .describe('Value of the header `Authorization`, such as `Bearer <token>`. Default: none')
    .meta({ secret: true }),
  ca: z
    .string()
    .optional()
    .describe(
      'PEM file of a certificate authority of the receiver, in addition to the public authorities',
    ),
  allowPrivateAddress: flag
    .default(false)
    .describe('Allow the receiver to be at a loopback, private or link-local address'),
});

const checkedWebhook = webhook
  .superRefine(({ form, events }, context) => {
    const other = form === 'distribution' && events?.find(name => !imageKinds.includes(name));
    if (!other) return;
    context.addIssue({
      code: 'custom',
      path: ['events'],
      message: `the form distribution has no message for ${other}: use cloudevents`,
    });
  })
  .transform(({ events, ...rest }) => ({
    ...rest,
    events: events ?? (rest.form === 'distribution' ? imageKinds : [...eventKinds]),
  }));

const mostWebhooks = 20;

/** Settings of webhooks by their names. */
export const webhooks = z
  .record(
    z
      .string()
      .regex(/^[a-z0-9][a-z0-9._-]{0,39}$/, 'expected a name of lower-case letters and digits')
      .refine(name => name !== mailTarget, 'this name is reserved'),
    checkedWebhook,
  )
  .refine(
    all => Object.keys(all).length <= mostWebhooks,
    `expected at most ${mostWebhooks} webhooks`,
  );

const mail = z.strictObject({
  server: z
    .url({ protocol: /^smtps?$/, error: 'expected smtp://host:port, or smtps://host:port' })
    .refine(text => !text.includes('@'), 'expected an address without a password')
    .optional()
    .describe(
      'SMTP server for e-mails, `smtp://host:port`, or `smtps://host:port` for TLS from the first byte. Default: none, and no e-mails',
    ),
  username: z.string().optional().describe('User name for the SMTP server'),
  password: z.string().optional().describe('Password for the SMTP server').meta({ secret: true }),
  from: z
    .string()
    .refine(isMailAddress, 'expected an e-mail address')
    .optional()
    .describe('Address of the sender. Required with `messages.mail.server`'),
  ca: z
    .string()
    .optional()
    .describe(
      'PEM file of a certificate authority of the SMTP server, in addition to the public authorities',
    ),
  requireTls: flag
    .default(true)
    .describe('Refuse an SMTP server that does not offer TLS (STARTTLS)'),
  allowPrivateAddress: flag
    .default(false)
    .describe('Allow the SMTP server to be at a loopback, private or link-local address'),
  builds: z
    .enum(['asked', 'errors', 'always'])
    .default('asked')
    .describe(
      'Which builds end with an e-mail to their caller, where the platform has no preference of that user (`waveBuildNotification`). `asked`: none, `errors`: failed ones, `always`: all',
    ),
  after: duration
    .prefault('2m')
    .describe('E-mails are about builds that took at least this time, the wait included'),
});

/** Messages about builds, pushes and deletions, for other servers and for users. */
export const messages = z.strictObject({
  webhooks: webhooks
    .default({})
    .describe('Receivers of messages by their names; in the configuration file only'),
  mail: mail.prefault({}),
  attempts: count
    .min(1)
    .max(100)
    .default(16)
    .describe(
      'Attempts per message. The time between them doubles from one second to one hour: 16 attempts take five hours',
    ),
  timeout: timer
    .refine(ms => ms <= longestTimeoutMs, 'expected at most 5m')
    .prefault('10s')
    .describe('Timeout for the response of a receiver, at most 5 minutes'),
  maxMessages: count
    .min(1)
    .max(1_000_000)
    .default(10_000)
    .describe(
      'Maximum number of messages that are kept for each receiver, and of those without attempts. The newest of the user with the most are dropped, and the oldest without attempts',
    ),
  keep: duration
    .prefault('30d')
    .describe('How long messages are kept that their receivers did not accept'),
});
