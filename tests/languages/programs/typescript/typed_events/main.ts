// An emitter whose listeners are checked against a table of events.
type Events = { deposit: { amount: number }; withdraw: { amount: number; reason?: string }; closed: undefined };
type Listener<K extends keyof Events> = (payload: Events[K]) => void;

class Account {
  private balance: number = 0;
  private readonly listeners: { [K in keyof Events]?: Listener<K>[] } = {};

  on<K extends keyof Events>(event: K, listener: Listener<K>): this {
    const list = (this.listeners[event] ??= [] as never) as Listener<K>[];
    list.push(listener);
    return this;
  }

  private emit<K extends keyof Events>(event: K, payload: Events[K]): void {
    for (const listener of (this.listeners[event] ?? []) as Listener<K>[]) listener(payload);
  }

  move(amount: number, reason?: string): void {
    if (this.balance + amount < 0) throw new Error(`only ${this.balance} left`);
    this.balance += amount;
    if (amount >= 0) this.emit('deposit', { amount });
    else this.emit('withdraw', { amount: -amount, ...(reason !== undefined ? { reason } : {}) });
  }

  close(): number {
    this.emit('closed', undefined);
    return this.balance;
  }
}

const account = new Account()
  .on('deposit', ({ amount }) => console.log(`+${amount.toFixed(2)}`))
  .on('withdraw', ({ amount, reason = 'no reason' }) => console.log(`-${amount.toFixed(2)} (${reason})`))
  .on('closed', () => console.log('closed'));
account.move(100);
account.move(-30.5, 'bread');
account.move(-1);
try {
  account.move(-1000);
} catch (error) {
  console.log((error as Error).message);
}
console.log(account.close());
