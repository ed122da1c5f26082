import {
  createMessageMetrics,
  type createMetricsRegistry,
} from '../../foundation/telemetry/index.ts';
import {
  createAnnounce,
  createMailDelivery,
  createWebhookDelivery,
  startMessageSender,
} from '../../messages/index.ts';
import type { TransportLimits } from '../../upstream/index.ts';
import { configuredMail, configuredWebhooks } from '../config/read/index.ts';
import type { AppDeps, State } from './server-state.ts';

/** Returns what turns events into messages, for the parts in which they happen. */
export function createAnnouncer({ config, publicUrl }: Pick<AppDeps, 'config' | 'publicUrl'>) {
  return createAnnounce({
    webhooks: configuredWebhooks(config),
    mailAfterMs: configuredMail(config) ? config.messages.mail.after : undefined,
    pageOf: id => new URL(`/view/builds/${id}`, publicUrl).href,
    host: publicUrl.host,
  });
}

/** Timeouts and limits of connections to other hosts. */
interface Connecting {
  readonly timeouts: { readonly connectMs: number };
  readonly bounds: TransportLimits;
}

/** Starts to send the messages in the rows. */
export function startMessages(
  { config, publicUrl, log }: AppDeps,
  { rows }: State,
  { connecting }: { readonly connecting: Connecting },
  metrics: ReturnType<typeof createMetricsRegistry>,
) {
  const { attempts, maxMessages, timeout } = config.messages;
  const mail = configuredMail(config);
  const webhookOptions = {
    origin: publicUrl.origin,
    connectMs: connecting.timeouts.connectMs,
    timeoutMs: timeout,
    limits: connecting.bounds,
  };
  const deliveries = [
    ...configuredWebhooks(config).map(webhook => createWebhookDelivery(webhook, webhookOptions)),
    ...(mail ? [createMailDelivery(mail, timeout)] : []),
  ];
  const targets = deliveries.map(({ name }) => name);
  const note = createMessageMetrics(metrics, targets, async target => {
    const oldest = await rows.messages.oldest(target);
    return oldest === undefined ? 0 : Math.max(0, Date.now() - oldest);
  });
  const { isCurrent, messages: store } = rows;
  return startMessageSender({ store, deliveries, isCurrent, attempts, maxMessages, note, log });
}
