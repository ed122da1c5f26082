/** Messages about events: webhooks and e-mails. */

export { startMessageSender } from './message-sender.ts';
export { createMailDelivery, type MailSettings } from './send-mail.ts';
export { createWebhookDelivery, type Webhook } from './send-webhook.ts';
export { type Announce, createAnnounce } from './site-event.ts';
