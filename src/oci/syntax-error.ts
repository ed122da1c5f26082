/** What kind of text or document could not be understood. */
export type SyntaxSubject = 'reference' | 'digest' | 'platform' | 'manifest' | 'index' | 'config';

/** A text or document that breaks its grammar; the message is a sentence fit for the person who sent it. */
export class OciSyntaxError extends Error {
  readonly subject: SyntaxSubject;

  constructor(subject: SyntaxSubject, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'OciSyntaxError';
    this.subject = subject;
  }
}
