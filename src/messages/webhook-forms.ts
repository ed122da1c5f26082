import { createHmac } from 'node:crypto';
import type { MessageRow } from '../storage/rows/index.ts';
import { type ImageData, timeOf } from './site-event.ts';

/** The form of the messages of a webhook. */
export type WebhookForm = 'cloudevents' | 'distribution';

/** The body of a request, and its type. */
export interface WebhookBody {
  readonly type: string;
  readonly text: string;
}

/** Where messages come from. */
export interface Sender {
  /** Address of this server. */
  readonly origin: string;
}

/** Returns the body of a message: the same one for each attempt. */
export function bodyOf(form: WebhookForm, message: MessageRow, sender: Sender): WebhookBody {
  return form === 'distribution' ? envelopeOf(message, sender) : cloudEventOf(message, sender);
}

// `sequence` sorts as text. Source: CloudEvents, extensions, sequence.
const sequenceDigits = 16;

/** Source: CloudEvents 1.0.2, JSON event format, structured content mode. */
function cloudEventOf(
  { id, event, kind, subject, createdAt, body }: MessageRow,
  { origin }: Sender,
): WebhookBody {
  const cloudEvent = {
    specversion: '1.0',
    id: event,
    source: origin,
    type: `sluice.${kind}`,
    subject,
    time: timeOf(createdAt),
    sequence: String(id).padStart(sequenceDigits, '0'),
    datacontenttype: 'application/json',
    data: JSON.parse(body) as unknown,
  };
  return {
    type: 'application/cloudevents+json; charset=utf-8',
    text: JSON.stringify(cloudEvent),
  };
}

/** Source: distribution registry, Work with notifications: the envelope has one event. */
function envelopeOf({ event, kind, createdAt, body }: MessageRow, { origin }: Sender): WebhookBody {
  const { host, repository, digest, mediaType, size, tags, tag } = JSON.parse(body) as ImageData;
  const action = kind === 'image.pushed' ? 'push' : 'delete';
  const reference = digest ?? tag;
  const [firstTag] = tags ?? [];
  const target = {
    mediaType,
    digest,
    size,
    length: size,
    repository,
    ...(action === 'push' && reference !== undefined
      ? { url: new URL(`/v2/${repository}/manifests/${reference}`, origin).href }
      : {}),
    tag: firstTag ?? tag,
  };
  const notification = {
    id: event,
    timestamp: timeOf(createdAt),
    action,
    target,
    request: { id: event, host },
    actor: {},
    source: { addr: host, instanceID: origin },
  };
  return {
    type: 'application/vnd.docker.distribution.events.v2+json',
    text: JSON.stringify({ events: [notification] }),
  };
}

const secretPrefix = 'whsec_';

/**
 * Returns the headers that let a receiver check a body, its id and its time. Source: Standard Webhooks 1.0, signature
 * scheme `v1`: HMAC-SHA256 of `<id>.<timestamp>.<body>`.
 *
 * @param secret `whsec_` and base64, or any text
 * @param at ms since the epoch
 */
export function signatureOf(
  secret: string | undefined,
  id: string,
  body: string,
  at: number,
): Readonly<Record<string, string>> {
  const timestamp = String(Math.floor(at / 1000));
  const named = { 'webhook-id': id, 'webhook-timestamp': timestamp };
  if (secret === undefined) return named;
  const key = secret.startsWith(secretPrefix)
    ? Buffer.from(secret.slice(secretPrefix.length), 'base64')
    : Buffer.from(secret);
  const signature = createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64');
  return { ...named, 'webhook-signature': `v1,${signature}` };
}
