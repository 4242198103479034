"""An order and the task that confirms it are stored together, or not at all."""

import sqlite3

import holdfast as hf

app = hf.App("sqlite:///shop.db")


@app.task
def confirm(order: int) -> str:
    return f"order {order} confirmed"


def place(shop: sqlite3.Connection, order: int, *, pays: bool) -> hf.types.TaskHandle[str, hf.TaskError]:
    shop.execute("INSERT INTO orders VALUES (?)", (order,))
    handle = confirm.with_options(connection=shop).send(order)
    if pays:
        shop.commit()
    else:
        shop.rollback()
    return handle


if __name__ == "__main__":
    with app:
        shop = sqlite3.connect("shop.db")
        shop.execute("CREATE TABLE IF NOT EXISTS orders (id INTEGER)")
        shop.commit()
        print(place(shop, 1, pays=True).get(timeout=30).ok)
        print(place(shop, 2, pays=False).get(timeout=30).err_value.error_code)
        shop.close()
