import { Fault } from '../foundation/fault.ts';
import type { MessageRow } from '../storage/rows/index.ts';
import {
  createTransport,
  defaultRegistrySettings,
  type TransportLimits,
} from '../upstream/index.ts';
import { closedAddressIn, createNames } from '../upstream/transport/index.ts';
import type { EventKind } from './site-event.ts';
import { bodyOf, type Sender, signatureOf, type WebhookForm } from './webhook-forms.ts';

/** The operator's settings of a webhook. */
export interface Webhook {
  readonly name: string;
  readonly url: URL;
  readonly form: WebhookForm;
  readonly events: readonly EventKind[];
  /** Signs the messages; undefined for none. */
  readonly secret: string | undefined;
  /** Value of the header `authorization`; undefined for none. */
  readonly authorization: string | undefined;
  /** PEM text of certificate authorities, in addition to the public ones. */
  readonly ca: string | undefined;
  readonly allowPrivateAddress: boolean;
}

/** Sends the messages of one receiver. */
export interface Delivery {
  readonly name: string;
  /** Resolves when the receiver has the message. Rejects with a {@link NotDelivered}. */
  send(message: MessageRow): Promise<void>;
  close(): Promise<void>;
}

/**
 * What a failed attempt says. `receiver`: the receiver does not work, so other messages wait too. `message`: it works, and
 * does not take this message now. `never`: nor will it ever.
 */
type Blame = 'receiver' | 'message' | 'never';

/** Why a receiver does not have a message, in words without secrets. */
export class NotDelivered extends Error {
  readonly blame: Blame;

  constructor(message: string, blame: Blame = 'receiver', options: ErrorOptions = {}) {
    super(message, options);
    this.blame = blame;
  }
}

export interface WebhookOptions extends Sender {
  readonly connectMs: number;
  /** Timeout for the whole request up to the status of its response (ms). */
  readonly timeoutMs: number;
  readonly limits: TransportLimits;
  /** Returns the time in ms since the epoch. */
  readonly now?: () => number;
}

// A request of any content may get these: a wrong login, too many requests, a slow request.
const passing = [401, 403, 404, 407, 408, 425, 429];

/** Receivers with a slow name server delay each other, and no registry. */
export const receiverNames = createNames();

/** Each webhook has connections of its own, so that a slow one takes none from the others. */
export function createWebhookDelivery(webhook: Webhook, options: WebhookOptions): Delivery {
  const { name, url, form, secret, authorization, ca, allowPrivateAddress } = webhook;
  const { connectMs, timeoutMs, limits, now = Date.now } = options;
  const settings = {
    ...defaultRegistrySettings,
    allowPrivateAddress,
    plainHttp: url.protocol === 'http:',
    ...(ca === undefined ? {} : { ca }),
  };
  const transport = createTransport(
    new Map([[url.host, settings]]),
    { connectMs, headersMs: timeoutMs, idleMs: timeoutMs },
    [],
    { ...limits, connections: 1, names: receiverNames },
  );

  return {
    name,

    async send(message) {
      const { type, text } = bodyOf(form, message, options);
      const response = await transport
        .send({
          url,
          method: 'POST',
          headers: {
            'content-type': type,
            ...signatureOf(secret, message.event, text, now()),
            ...(authorization === undefined ? {} : { authorization }),
          },
          body: text,
          signal: AbortSignal.timeout(timeoutMs),
        })
        .catch(cause => {
          throw new NotDelivered(whyOf(cause), 'receiver', { cause });
        });
      // Only the status counts. A long body costs the connection.
      response.body.destroy();
      const { status } = response;
      if (status >= 200 && status < 300) return;
      const isRefused = status >= 400 && status < 500 && !passing.includes(status);
      throw new NotDelivered(
        status >= 300 && status < 400
          ? `The receiver answered ${status}: redirects are not followed, so name its final address`
          : `The receiver answered ${status}`,
        isRefused ? 'message' : 'receiver',
      );
    },

    close: transport.close,
  };
}

/** The address of a webhook may contain a secret, so no text of an error that may name it is used. */
function whyOf(error: unknown): string {
  const closed = closedAddressIn(error);
  if (closed) {
    return 'The receiver is at a loopback, private or otherwise closed network address, which is refused: set allowPrivateAddress for it';
  }
  if (error instanceof Fault) return error.message;
  const { name, code } = error as NodeJS.ErrnoException;
  if (name === 'TimeoutError' || code === 'UND_ERR_HEADERS_TIMEOUT') {
    return 'The receiver did not answer in time';
  }
  return `The receiver cannot be reached${code ? ` (${code})` : ''}`;
}
