/** Messages about events: webhooks and e-mails. */

export { type MessageSenderDeps, type NoteMessages, startMessageSender } from './message-sender.ts';
export { createMailDelivery, type MailSettings } from './send-mail.ts';
export { createWebhookDelivery, type Delivery, type Webhook } from './send-webhook.ts';
export {
  type Announce,
  type BuildEnded,
  createAnnounce,
} from './site-event.ts';
