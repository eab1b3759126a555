/** Tells answers that are out of date: those that arrive after the answer to a later request. */
export class AnswerOrder {
  /** Call at each request. The returned function tells, when the answer arrives, whether it is the newest so far. */
  ask(): () => boolean {
    const asked = ++this._asked;
    return () => {
      const isNewest = asked >= this._answered;
      this._answered = Math.max(asked, this._answered);
      return isNewest;
    };
  }

  private _asked = 0;
  private _answered = 0;
}
