/** The kind of text or document that is malformed. */
export type SyntaxSubject = 'reference' | 'digest' | 'platform' | 'manifest' | 'index' | 'config';

/** A text or document that violates its grammar. The message is fit for the person who sent it. */
export class OciSyntaxError extends Error {
  readonly subject: SyntaxSubject;

  constructor(subject: SyntaxSubject, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'OciSyntaxError';
    this.subject = subject;
  }
}
